import { randomUUID } from 'node:crypto';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { freePorts } from '../../../deploy/local/free-ports.ts';
import { newKeyringText, parseKeyring } from '../../../services/platform/security/keyring.ts';
import {
  startTestGateway,
  TEST_AUTHOR,
  type TestGateway,
} from '../../../test/kit/gateway/test-gateway.ts';
import {
  type FakeIdentity,
  SIGN_IN_CLIENT,
  startFakeIdentity,
} from '../../../test/kit/oauth/fake-identity.ts';
import { signInSettings } from '../../../test/kit/oauth/sign-in-stack.ts';
import { addMember } from '../../tenancy/members.ts';
import { linkAccount } from '../../tenancy/sign-in-accounts.ts';
import { createPortalSessions, type PortalSessions } from './sessions.ts';

let under: TestGateway;
let identity: FakeIdentity;
let sessions: PortalSessions;
beforeAll(async () => {
  const [port = 0, identityPort = 0] = await freePorts(2);
  identity = await startFakeIdentity(identityPort);
  under = await startTestGateway({
    PORT: port,
    PUBLIC_BASE_URL: `http://127.0.0.1:${port}`,
    ...signInSettings(identity.issuer, SIGN_IN_CLIENT),
    OAUTH_KEYRING: parseKeyring(newKeyringText()),
  });
  sessions = createPortalSessions(under.database.pool, { hours: 12, idleMinutes: 120 });
});
afterAll(async () => {
  await under.stop();
  identity.stop();
});
afterEach(() => {
  identity.isForging = false;
});

/** Starts a session. @returns whether it is still valid. */
async function startSession(subject: string): Promise<() => Promise<boolean>> {
  const email = `${randomUUID()}@example.com`;
  const shopId = await under.newShop();
  const { pool } = under.database;
  const { userId } = await addMember(pool, { shopId, email, role: 'owner', by: TEST_AUTHOR });
  const account = { issuer: identity.issuer, subject };
  await linkAccount(pool, { email, account });
  const secret = await sessions.start({ userId, shopId, account, source: '', device: '' });
  return async () => (await sessions.find(secret)) !== undefined;
}

const EVENT = 'http://schemas.openid.net/event/backchannel-logout';
const EVENTS = { [EVENT]: {} };
const claimsFor = (sub: string) => ({
  ...{ iss: identity.issuer, aud: SIGN_IN_CLIENT.clientId, sub, jti: randomUUID() },
  events: EVENTS,
});

const send = (form: Record<string, string>) =>
  fetch(`${under.gateway.baseUrl}/portal/backchannel-logout`, {
    method: 'POST',
    body: new URLSearchParams(form),
  });

// OpenID Connect Back-Channel Logout 1.0, 2.6 to 2.8.
describe('a sign-out at the identity provider', () => {
  test('ends the sessions of the account, and no other; a repeat changes nothing', async () => {
    const [isMine, isOther] = [await startSession('ann'), await startSession('bo')];
    const logout_token = await identity.sign(claimsFor('ann'));
    for (let time = 0; time < 2; time += 1) {
      const answer = await send({ logout_token });
      expect([answer.status, answer.headers.get('cache-control')]).toEqual([200, 'no-store']);
    }
    expect([await isMine(), await isOther()]).toEqual([false, true]);
  });

  test('does not end a session that began after it, when the message is repeated', async () => {
    const isValid = await startSession('cy');
    const iat = Math.floor(Date.now() / 1_000) - 60;
    const logout_token = await identity.sign({ ...claimsFor('cy'), iat });
    expect([(await send({ logout_token })).status, await isValid()]).toEqual([200, true]);
  });

  test.each<[string, (sub: string) => Record<string, unknown>]>([
    ['of an ID token', (sub) => ({ ...claimsFor(sub), events: undefined })],
    ['with a nonce', (sub) => ({ ...claimsFor(sub), nonce: 'n' })],
    ['of another event', (sub) => ({ ...claimsFor(sub), events: { other: {} } })],
    ['of another issuer', (sub) => ({ ...claimsFor(sub), iss: 'https://evil.example' })],
    ['for another client', (sub) => ({ ...claimsFor(sub), aud: 'other' })],
    ['without a subject', (sub) => ({ ...claimsFor(sub), sub: undefined })],
    ['without an id', (sub) => ({ ...claimsFor(sub), jti: undefined })],
    ['that have expired', (sub) => ({ ...claimsFor(sub), exp: Date.now() / 1_000 - 3_600 })],
    ['of an event without content', (sub) => ({ ...claimsFor(sub), events: { [EVENT]: null } })],
    ['of an hour ago', (sub) => ({ ...claimsFor(sub), iat: Date.now() / 1_000 - 3_600 })],
  ])('with the claims %s is rejected', async (_what, claims) => {
    const subject = randomUUID();
    const isValid = await startSession(subject);
    const answer = await send({ logout_token: await identity.sign(claims(subject)) });
    expect(answer.status).toBe(400);
    expect(await answer.json()).toMatchObject({ error: 'invalid_request' });
    expect(await isValid()).toBe(true);
  });

  test('with another signature, or without a token, is rejected', async () => {
    const subject = randomUUID();
    const isValid = await startSession(subject);
    identity.isForging = true;
    const forged = await send({ logout_token: await identity.sign(claimsFor(subject)) });
    expect([forged.status, (await send({})).status, await isValid()]).toEqual([400, 400, true]);
    const [head, body] = (await identity.sign(claimsFor(subject))).split('.');
    const unsigned = Buffer.from('{"alg":"none"}').toString('base64url');
    for (const logout_token of [`${unsigned}.${body}.`, `${head}.${body}.`, 'x'])
      expect((await send({ logout_token })).status).toBe(400);
    expect(await isValid()).toBe(true);
  });
});
