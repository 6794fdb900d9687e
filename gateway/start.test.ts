import { connect, createServer } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { staticIdentity } from '../services/platform/identity.ts';
import { createTestDatabase, type TestDatabase } from '../test/support/database.ts';
import { type GatewayOptions, startGateway } from './start.ts';

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase('gateway');
});
afterAll(() => database.drop());

const AWAY = '127.0.0.1:1';
const targets = {
  returns: AWAY,
  dispositions: AWAY,
  destinations: AWAY,
  fraud: AWAY,
  carts: AWAY,
  webhooks: AWAY,
};

/** A port that was free a moment ago. */
async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  const address = server.address();
  await new Promise((done) => server.close(done));
  if (address === null || typeof address === 'string') throw new Error('no port was given');
  return address.port;
}

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

  test.each(malformed)('(%s) does not start, and leaves nothing running', async (_, options) => {
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
