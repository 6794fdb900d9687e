import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { Agent, get, type IncomingMessage } from 'node:http';
import { connect } from 'node:net';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { createTestDatabase, type TestDatabase } from '../test/kit/database.ts';
import { until } from '../test/kit/until.ts';

let database: TestDatabase;

beforeAll(async () => {
  database = await createTestDatabase('gateway');
});
afterAll(() => database.drop());

const MAIN = fileURLToPath(new URL('./main.ts', import.meta.url));
const TARGETS = ['RETURNS', 'DISPOSITIONS', 'DESTINATIONS', 'FRAUD', 'CARTS', 'WEBHOOKS'];

function start(env: Record<string, string>) {
  return spawn(process.execPath, [MAIN], {
    env: { PATH: process.env.PATH ?? '', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
}

/** Starts a gateway, and waits until it listens. */
async function startListening(env: Record<string, string> = {}) {
  const targets = TARGETS.map((name) => [`${name}_TARGET`, '127.0.0.1:1']);
  const child = start({
    DATABASE_URL: database.url,
    SERVICE_TOKEN: 'a'.repeat(32),
    PORT: '0',
    METRICS_PORT: '0',
    ...Object.fromEntries(targets),
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
