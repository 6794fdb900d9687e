import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { type CryptoKey, exportJWK, generateKeyPair, SignJWT } from 'jose';
import { Actor_Kind } from '../../../proto/gen/rms/common/v1/actor_pb.ts';
import { ANY_CALLER } from '../rpc/callers.ts';
import { kubernetesIdentity, staticIdentity, systemActor } from './identity.ts';

describe('static identity', () => {
  const identity = staticIdentity('t'.repeat(32));

  test('sends its token and accepts it', async () => {
    expect(await identity.callerOf(await identity.token())).toBe(ANY_CALLER);
    expect(await identity.callerOf(await identity.as('returns').token())).toBe('returns');
  });

  test.each(['', 't', 't'.repeat(31), 't'.repeat(33), 'u'.repeat(32)])(
    'rejects %j',
    async (token) => {
      expect(await identity.callerOf(token)).toBeUndefined();
      expect(await identity.callerOf(`returns:${token}`)).toBeUndefined();
    },
  );
});

describe('kubernetes identity', () => {
  const issuer = 'https://kubernetes.default.svc';
  let folder: string;
  let ours: CryptoKey;
  let foreign: CryptoKey;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'identity-'));
    const pair = await generateKeyPair('RS256');
    ours = pair.privateKey;
    foreign = (await generateKeyPair('RS256')).privateKey;
    const jwk = { ...(await exportJWK(pair.publicKey)), kid: 'k1', alg: 'RS256' };
    await writeFile(join(folder, 'jwks.json'), JSON.stringify({ keys: [jwk] }));
    await writeFile(join(folder, 'token'), `${await sign({})}\n`);
  });
  afterAll(() => rm(folder, { recursive: true }));

  const identity = () =>
    kubernetesIdentity({
      tokenFile: join(folder, 'token'),
      jwksFile: join(folder, 'jwks.json'),
      issuer,
      subjects: ['system:serviceaccount:rms:*', 'system:serviceaccount:tools:admin'],
      callers: new Map([['system:serviceaccount:logistics:post', 'labels']]),
    });

  function sign(o: {
    sub?: string;
    iss?: string;
    aud?: string;
    exp?: string | null;
    nbf?: string;
    key?: CryptoKey;
  }) {
    const jwt = new SignJWT({ sub: o.sub ?? 'system:serviceaccount:rms:returns' })
      .setProtectedHeader({ alg: 'RS256', kid: 'k1' })
      .setIssuer(o.iss ?? issuer)
      .setAudience(o.aud ?? 'rms');
    if (o.exp !== null) jwt.setExpirationTime(o.exp ?? '10m');
    if (o.nbf !== undefined) jwt.setNotBefore(o.nbf);
    return jwt.sign(o.key ?? ours);
  }

  test('sends the token of the file and accepts it, repeatedly', async () => {
    const pod = identity();
    const token = await pod.token();
    expect(token).not.toMatch(/\s/);
    expect(await pod.callerOf(token)).toBe('returns');
    expect(await pod.callerOf(token)).toBe('returns');
  });

  test('rejects another issuer, audience or key, and an expired, endless or malformed token', async () => {
    const pod = identity();
    expect(await pod.callerOf(await sign({ iss: 'https://elsewhere' }))).toBeUndefined();
    expect(await pod.callerOf(await sign({ aud: 'other' }))).toBeUndefined();
    expect(await pod.callerOf(await sign({ key: foreign }))).toBeUndefined();
    expect(await pod.callerOf(await sign({ exp: '-1m' }))).toBeUndefined();
    expect(await pod.callerOf(await sign({ exp: null }))).toBeUndefined();
    expect(await pod.callerOf(await sign({ nbf: '10m' }))).toBeUndefined();
    expect(await pod.callerOf('no.jwt.here')).toBeUndefined();
  });

  test('accepts a new token although the clock of its signer is a little ahead', async () => {
    expect(await identity().callerOf(await sign({ nbf: '3s' }))).toBe('returns');
  });

  test.each([
    ['ours, by its namespace', 'system:serviceaccount:rms:webhooks', 'webhooks'],
    ['ours, by its name', 'system:serviceaccount:tools:admin', 'admin'],
    ['an internal one', 'system:serviceaccount:logistics:post', 'labels'],
    ['of another namespace', 'system:serviceaccount:others:returns', undefined],
    ['of a namespace whose name begins alike', 'system:serviceaccount:rms-dev:returns', undefined],
    [
      'another one of a namespace of which one is ours',
      'system:serviceaccount:tools:ci',
      undefined,
    ],
    ['nobody', '', undefined],
  ])('a service account that is %s', async (_, sub, expected) => {
    expect(await identity().callerOf(await sign({ sub }))).toBe(expected);
  });

  test('a missing token file is an error', async () => {
    const missing = { tokenFile: join(folder, 'none'), jwksFile: 'none' };
    const pod = kubernetesIdentity({ ...missing, issuer, subjects: ['*'] });
    await expect(pod.token()).rejects.toThrow('ENOENT');
  });
});

test('work without a caller is done by the system', () => {
  expect(systemActor('sweeper')).toEqual({
    kind: Actor_Kind.SYSTEM,
    id: 'sweeper',
    name: 'sweeper',
  });
});
