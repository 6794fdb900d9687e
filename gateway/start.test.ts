import { connect } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { freePort } from '../deploy/local/free-ports.ts';
import { staticIdentity } from '../services/platform/identity.ts';
import { createTestDatabase, type TestDatabase } from '../test/kit/database.ts';
import type { GatewayOptions } from './options.ts';
import { startGateway } from './start.ts';

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase('gateway');
});
afterAll(() => database.drop());

const UNREACHABLE = '127.0.0.1:1';
const targets = {
  returns: UNREACHABLE,
  dispositions: UNREACHABLE,
  destinations: UNREACHABLE,
  fraud: UNREACHABLE,
  carts: UNREACHABLE,
  webhooks: UNREACHABLE,
};

function listens(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    socket.once('connect', () => resolve(true)).once('error', () => resolve(false));
    socket.once('connect', () => socket.destroy());
  });
}

describe('a gateway with a malformed option', () => {
  const partnerOAuth = { issuer: 'https://a', audience: 'https://b', shopClaim: 'shop' };
  const malformed: [string, Partial<GatewayOptions>][] = [
    ['address of keys', { partnerOAuth: { ...partnerOAuth, jwksUrl: 'no address' } }],
    ['range of proxies', { trustedProxies: ['no range'] }],
  ];

  test.each(malformed)('(%s) does not start, and nothing keeps running', async (_, options) => {
    const metricsPort = await freePort();
    const starting = startGateway({
      port: 0,
      metricsPort,
      databaseUrl: database.url,
      targets,
      identity: staticIdentity('test-token-of-32-characters-or-more'),
      logLevel: 'silent',
      ...options,
    });
    await expect(starting).rejects.toThrow();
    expect(await listens(metricsPort)).toBe(false);
  });
});
