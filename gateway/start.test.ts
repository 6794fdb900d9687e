import { type AddressInfo, connect, createServer } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { freePort } from '../deploy/local/free-ports.ts';
import { createTestDatabase, type TestDatabase } from '../test/kit/database.ts';
import { startFakeBackend } from '../test/kit/gateway/fake-backend.ts';
import { testSettings } from '../test/kit/settings.ts';
import { until } from '../test/kit/until.ts';
import { gatewayShape } from './config.ts';
import type { GatewayOptions } from './open-parts.ts';
import { targetsShape } from './services.ts';
import { startGateway } from './start.ts';

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

/** A port that closes every connection until `open` is called; then it forwards to another port. */
async function startGate(target: string) {
  const [host, port] = target.split(':');
  const state = { isOpen: false, refused: 0 };
  const server = createServer((socket) => {
    socket.on('error', () => {});
    if (state.isOpen) {
      const to = connect(Number(port), host);
      to.on('error', () => socket.destroy());
      socket
        .on('close', () => to.destroy())
        .pipe(to)
        .pipe(socket);
      return;
    }
    state.refused += 1;
    socket.destroy();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port: own } = server.address() as AddressInfo;
  return { target: `127.0.0.1:${own}`, state, stop: () => server.close() };
}

test('a new gateway is ready when it has reached each of its services', async () => {
  const backend = await startFakeBackend();
  const gate = await startGate(backend.targets.webhooks);
  const reached = Object.keys(targetsShape).map((name) => [name, backend.targets.returns]);
  const gateway = await startGateway(
    testSettings(gatewayShape, {
      ...Object.fromEntries(reached),
      WEBHOOKS_TARGET: gate.target,
      DATABASE_URL: database.url,
    }),
  );
  const readiness = async () => {
    const response = await fetch(`${gateway.baseUrl}/readyz`);
    return { status: response.status, body: await response.text() };
  };
  await until(() => gate.state.refused > 0);
  const before = await readiness();
  gate.state.isOpen = true;
  await until(async (see) => see(await readiness()).status === 200);
  await gateway.stop();
  gate.stop();
  await backend.stop();
  expect(before).toMatchObject({
    status: 503,
    body: expect.stringContaining('connecting to the services'),
  });
});
