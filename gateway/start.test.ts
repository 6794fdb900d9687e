import { connect } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { freePort } from '../deploy/local/free-ports.ts';
import { createTestDatabase, type TestDatabase } from '../test/kit/database.ts';
import { testSettings } from '../test/kit/settings.ts';
import { gatewayShape } from './config.ts';
import { targetsShape } from './services.ts';
import { type GatewayOptions, startGateway } from './start.ts';

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase('gateway');
});
afterAll(() => database.drop());

const targets = Object.fromEntries(Object.keys(targetsShape).map((name) => [name, '127.0.0.1:1']));

function listens(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    socket.once('connect', () => resolve(true)).once('error', () => resolve(false));
    socket.once('connect', () => socket.destroy());
  });
}

describe('a gateway with a malformed option', () => {
  const malformed: [string, Partial<GatewayOptions>][] = [
    ['address of keys', { PARTNER_ISSUER: 'https://a', PARTNER_JWKS_URL: 'no address' }],
    ['range of proxies', { TRUSTED_PROXIES: ['no range'] }],
  ];

  test.each(malformed)('(%s) does not start, and nothing keeps running', async (_, options) => {
    const metricsPort = await freePort();
    const settings = testSettings(gatewayShape, { ...targets, DATABASE_URL: database.url });
    const starting = startGateway({ ...settings, METRICS_PORT: metricsPort, ...options });
    await expect(starting).rejects.toThrow();
    expect(await listens(metricsPort)).toBe(false);
  });
});
