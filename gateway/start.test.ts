import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { Agent, get, type IncomingMessage } from 'node:http';
import { type AddressInfo, connect, createServer } from 'node:net';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { freePort } from '../deploy/local/free-ports.ts';
import { forTargets } from '../services/platform/services.ts';
import { createTestDatabase, type TestDatabase } from '../test/kit/database.ts';
import { startFakeBackend } from '../test/kit/gateway/fake-backend.ts';
import { testSettings } from '../test/kit/settings.ts';
import { until } from '../test/kit/until.ts';
import { gatewayShape, loadGatewayConfig, partnerOAuth } from './config.ts';
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

const MAIN = fileURLToPath(new URL('./main.ts', import.meta.url));

function start(env: Record<string, string>) {
  return spawn(process.execPath, [MAIN], {
    env: { PATH: process.env.PATH ?? '', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
}

/** Starts a gateway, and waits until it listens. */
async function startListening(env: Record<string, string> = {}) {
  const child = start({
    DATABASE_URL: database.url,
    SERVICE_TOKEN: 'a'.repeat(32),
    PORT: '0',
    METRICS_PORT: '0',
    ...forTargets(() => '127.0.0.1:1'),
    ...env,
  });
  for await (const line of createInterface(child.stdout)) {
    const event: { msg?: string; port?: number } = JSON.parse(line);
    if (event.msg === 'listening') return { child, port: event.port ?? 0 };
  }
  throw new Error('the gateway does not listen');
}

/** Whether no connection can be opened. */
function isRefused(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    socket.once('connect', () => resolve(false)).once('error', () => resolve(true));
    socket.once('connect', () => socket.destroy());
  });
}

describe('the gateway process', () => {
  test('starts from the environment, and stops gracefully on SIGTERM', async () => {
    const { child, port } = await startListening({ SHUTDOWN_IDLE_MS: '0' });
    await until(async () => (await fetch(`http://127.0.0.1:${port}/readyz`)).status === 200);
    child.kill('SIGTERM');
    expect(await once(child, 'exit')).toEqual([0, null]);
  });

  test('on SIGTERM, a client with an idle connection gets one more response, which ends it', async () => {
    const { child, port } = await startListening({ SHUTDOWN_IDLE_MS: '15000' });
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    const send = async () => {
      const req = get({ port, host: '127.0.0.1', path: '/livez', agent });
      const [res]: IncomingMessage[] = await once(req, 'response');
      if (res) await once(res.resume(), 'end');
      return { isReused: req.reusedSocket, status: res?.statusCode, ends: res?.headers.connection };
    };
    expect(await send()).toEqual({ isReused: false, status: 200, ends: 'keep-alive' });
    child.kill('SIGTERM');
    // The stop has begun when new connections are refused.
    await until(() => isRefused(port));
    expect(await send()).toEqual({ isReused: true, status: 200, ends: 'close' });
    expect(await once(child, 'exit')).toEqual([0, null]);
    agent.destroy();
  });

  test('names every missing variable and ends with status 1', async () => {
    const child = start({});
    let output = '';
    child.stderr.on('data', (chunk: Buffer) => {
      output += chunk.toString();
    });
    expect(await once(child, 'exit')).toEqual([1, null]);
    for (const name of ['DATABASE_URL', 'SERVICE_TOKEN', 'CARTS_TARGET'])
      expect(output).toContain(name);
  });
});

const ENV = {
  DATABASE_URL: 'postgres://rms_gateway@db/rms',
  SERVICE_TOKEN: 'a'.repeat(32),
  ...forTargets((name) => `dns:///${name}:8080`),
};
const PRODUCTION = {
  ...ENV,
  NODE_ENV: 'production',
  SERVICE_AUTH: 'kubernetes',
  SERVICE_TOKEN_FILE: '/token',
  SERVICE_JWKS_FILE: '/jwks',
  SERVICE_ISSUER: 'https://kubernetes.default.svc',
  SERVICE_SUBJECTS: 'system:serviceaccount:rms:*',
  TRANSPORT_SECURITY: 'mesh',
  TRUSTED_PROXIES: '10.0.0.0/8',
};

describe("the gateway's configuration", () => {
  test('needs a database, a service token and the services; the rest has defaults', () => {
    expect(loadGatewayConfig(ENV)).toMatchObject({
      REST_PER_MINUTE: 300,
      FAILED_CREDENTIALS_PER_MINUTE: 60,
      DOCS_ENABLED: true,
    });
    expect(() => loadGatewayConfig({})).toThrow(/CARTS_TARGET.*DATABASE_URL.*SERVICE_TOKEN/s);
  });

  test('API_CALENDAR moves the version calendar, but not in production', () => {
    const moved = { API_CALENDAR: '2027-08-01' };
    expect(loadGatewayConfig({ ...ENV, ...moved }).API_CALENDAR).toEqual(
      new Date('2027-08-01T00:00:00Z'),
    );
    expect(() => loadGatewayConfig({ ...PRODUCTION, ...moved })).toThrow(/API_CALENDAR/);
    expect(() => loadGatewayConfig(PRODUCTION)).not.toThrow();
  });

  test("partners' issuer and its keys belong together", () => {
    const half = { ...ENV, PARTNER_ISSUER: 'https://auth.example.com' };
    expect(() => loadGatewayConfig(half)).toThrow(/PARTNER_JWKS_URL/);
    const whole = {
      ...half,
      PARTNER_JWKS_URL: 'https://auth.example.com/jwks',
      PUBLIC_BASE_URL: 'https://api.example.com',
    };
    expect(partnerOAuth(loadGatewayConfig(whole))).toEqual({
      issuer: 'https://auth.example.com',
      jwksUrl: 'https://auth.example.com/jwks',
      audience: 'https://api.example.com',
      shopClaim: 'shop_id',
      userClaim: undefined,
    });
  });

  test.each([
    ['PARTNER_ISSUER', 'http://auth.example.com'],
    ['PARTNER_JWKS_URL', 'http://auth.example.com/jwks'],
  ])('%s without TLS is rejected only in production', (name, address) => {
    const partners = {
      PARTNER_ISSUER: 'https://auth.example.com',
      PARTNER_JWKS_URL: 'https://auth.example.com/jwks',
    };
    const open = { ...partners, [name]: address };
    expect(() => loadGatewayConfig({ ...PRODUCTION, ...open })).toThrow(`${name}: must be https`);
    expect(() => loadGatewayConfig({ ...PRODUCTION, ...partners })).not.toThrow();
    expect(() => loadGatewayConfig({ ...ENV, ...open })).not.toThrow();
  });

  describe('TRUSTED_PROXIES', () => {
    const proxies = (text: string, env: Record<string, string> = PRODUCTION) =>
      loadGatewayConfig({ ...env, TRUSTED_PROXIES: text }).TRUSTED_PROXIES;

    test('are required in production', () => {
      expect(() => proxies('')).toThrow(/TRUSTED_PROXIES is missing/);
      expect(() => proxies('none')).toThrow(/TRUSTED_PROXIES is missing/);
      expect(proxies('10.0.0.0/8, fd00::/8,192.0.2.1')).toEqual([
        '10.0.0.0/8',
        'fd00::/8',
        '192.0.2.1',
      ]);
    });

    test('are optional outside of production', () => {
      expect(loadGatewayConfig(ENV).TRUSTED_PROXIES).toBeUndefined();
      expect(proxies('none', ENV)).toEqual([]);
      expect(proxies('127.0.0.1', ENV)).toEqual(['127.0.0.1']);
    });

    test.each([
      '0.0.0.0/0',
      '::/0',
      '10.0.0.0/8,::/0',
      '0.0.0.0/1,128.0.0.0/1',
      'none,10.0.0.1',
      'x',
    ])('%s is always rejected', (text) => {
      for (const env of [ENV, PRODUCTION]) {
        expect(() => proxies(text, env)).toThrow(
          /TRUSTED_PROXIES: (must be addresses|has a range wider than)/,
        );
      }
    });
  });
});
