import { describe, expect, test } from '@jest/globals';
import { forTargets } from '../../services/platform/services.ts';
import { problemsIn } from './problems.ts';
import type { Manifest } from './render.ts';

const TARGETS = forTargets(() => 'dns:///one:8080');

function object(kind: string, name: string, content: object): Manifest {
  return { kind, metadata: { name, labels: {}, annotations: {} }, ...content };
}

interface GatewayOptions {
  readonly image?: string;
  readonly command?: readonly string[];
  readonly env?: readonly object[];
}

function gateway({ image = 'registry:5000/rms:1', command, env }: GatewayOptions): Manifest {
  const database = { secretKeyRef: { name: 'database', key: 'gateway' } };
  const container = {
    name: 'server',
    image,
    command: command ?? ['node', 'gateway/main.ts'],
    envFrom: [{ configMapRef: { name: 'gateway-0123456789' } }, { secretRef: { name: 'more' } }],
    env: [{ name: 'DATABASE_URL', valueFrom: database }, ...(env ?? [])],
  };
  const template = { metadata: { labels: {} }, spec: { containers: [container] } };
  return object('Deployment', 'gateway', { spec: { template } });
}

const map = (data: object) => object('ConfigMap', 'gateway-0123456789', { data });

function secret(name: string, values: Readonly<Record<string, string>>): Manifest {
  const data = Object.entries(values).map(([key, value]) => [
    key,
    Buffer.from(value).toString('base64'),
  ]);
  return object('Secret', name, { data: Object.fromEntries(data) });
}

describe('the check before production', () => {
  test('accepts a complete deployment', async () => {
    const values = { ...TARGETS, TRUSTED_PROXIES: '10.0.0.0/24', SERVICE_AUTH: 'kubernetes' };
    const objects = [gateway({}), map(values), secret('database', { gateway: 'postgres://a/b' })];
    expect(await problemsIn(objects)).toEqual([]);
  });

  test.each([
    ['rms', 'has no tag and no digest'],
    ['registry:5000/team/rms', 'has no tag and no digest'],
    ['rms:latest', 'can change'],
  ])('rejects the image %s', async (image, why) => {
    expect(await problemsIn([gateway({ image })])).toEqual([
      `Deployment gateway: the image ${image} ${why}`,
    ]);
  });

  test.each(['rms:1.2', 'registry:5000/rms:1', 'r/rms@sha256:abc', 'rms:latest@sha256:abc'])(
    'accepts the image %s',
    async (image) => expect(await problemsIn([gateway({ image })])).toEqual([]),
  );

  test('rejects the bundled identity provider', async () => {
    const command = ['node', 'deploy/demo/main.ts'];
    expect(await problemsIn([gateway({ command })])).toEqual([
      'Deployment gateway: deploy/demo/main.ts is the bundled identity or demo data',
    ]);
  });

  test('rejects demo secrets: as plain text, in a keyring, as a literal', async () => {
    const key = Buffer.from('dev-only-key-that-is-no-secret-1').toString('base64');
    const objects = [
      gateway({ env: [{ name: 'SIGN_IN_CLIENT_SECRET', value: 'dev-only-x' }] }),
      secret('database', { gateway: 'postgres://rms:dev-only-gateway@postgres/rms' }),
      secret('more', { OAUTH_KEYRING: `k1:${key}` }),
    ];
    expect(await problemsIn(objects)).toEqual([
      'Deployment gateway: SIGN_IN_CLIENT_SECRET is a demo secret',
      'Secret database: gateway is a demo secret',
      'Secret more: OAUTH_KEYRING is a demo secret',
    ]);
  });

  test('rejects an environment other than production', async () => {
    expect(await problemsIn([gateway({}), map({ NODE_ENV: 'development' })])).toEqual([
      'ConfigMap gateway: NODE_ENV is not production',
    ]);
  });

  test('rejects keys that no process reads, in ConfigMaps, Secrets and literals', async () => {
    const objects = [
      gateway({ env: [{ name: 'RETURN_TARGET', value: 'dns:///returns:8080' }] }),
      map({ REST_PER_MINUT: '3' }),
      secret('database', { gateway: 'postgres://a/b', gatway: 'postgres://a/b' }),
      secret('more', { WEBHOOK_KEYRING: 'of another process' }),
    ];
    expect(await problemsIn(objects)).toEqual([
      'ConfigMap gateway: REST_PER_MINUT: no process reads it',
      'Deployment gateway: RETURN_TARGET: no process reads it',
      'Secret database: gatway: no process reads it',
      'Secret more: WEBHOOK_KEYRING: no process reads it',
    ]);
  });

  test('rejects values that the process rejects, without repeating them', async () => {
    const [line = '', ...more] = await problemsIn([gateway({}), map({ PORT: 'ninety' })]);
    expect(more).toEqual([]);
    expect(line).toMatch(/^ConfigMap gateway: PORT: must be /);
    expect(line).not.toContain('ninety');
  });

  test('ignores data that belongs to other software', async () => {
    const other = object('ConfigMap', 'grafana', { data: { 'a.json': '{}' } });
    expect(await problemsIn([gateway({}), other])).toEqual([]);
  });
});
