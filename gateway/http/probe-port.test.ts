import { execFileSync } from 'node:child_process';
import { createServer } from 'node:http';
import { afterEach, expect, test } from '@jest/globals';
import { type ProbePort, startProbePort } from './probe-port.ts';
import type { Readiness } from './probes.ts';

const READY: Readiness = { ready: true, parts: { schema: 'fits' } };

const logger = { error: () => {} };

let probes: ProbePort | undefined;
afterEach(async () => {
  await probes?.stop();
  probes = undefined;
});

async function start(o: { readonly beatMs?: number; readonly readiness?: Readiness } = {}) {
  const { readiness = READY, ...more } = o;
  const own = { host: '127.0.0.1', port: 0, readiness: async () => readiness, logger, ...more };
  probes = await startProbePort(own);
  return `http://127.0.0.1:${probes.port}`;
}

/** Runs a shell command while the event loop of this process hangs. */
const hanging = (command: string): string =>
  execFileSync('sh', ['-c', command], { encoding: 'utf8', timeout: 60_000 });

test('readiness is what the process says', async () => {
  const ready = await fetch(`${await start()}/readyz`);
  expect([ready.status, await ready.json()]).toEqual([200, { status: 'ok', parts: READY.parts }]);
  await probes?.stop();
  const readiness = { ready: false, parts: { gateway: 'stopping' } };
  const unready = await fetch(`${await start({ readiness })}/readyz`);
  expect([unready.status, await unready.json()]).toEqual([
    503,
    { status: 'unready', parts: readiness.parts },
  ]);
  expect((await fetch(`http://127.0.0.1:${probes?.port}/other`)).status).toBe(404);
});

test('a busy event loop delays no probe, and its last readiness counts', async () => {
  const url = await start();
  await fetch(`${url}/readyz`);
  const statuses = hanging(
    `curl -s -o /dev/null -o /dev/null -w '%{http_code} ' ${url}/livez ${url}/readyz`,
  );
  expect(statuses).toBe('200 200 ');
});

test('a hanging event loop is neither live nor ready', async () => {
  const url = await start({ beatMs: 20 });
  await fetch(`${url}/readyz`);
  for (const path of ['livez', 'readyz']) {
    const status = `curl -s -o /dev/null -w '%{http_code}' ${url}/${path}`;
    expect(hanging(`until [ "$(${status})" = 503 ]; do sleep 0.05; done; echo over`)).toBe(
      'over\n',
    );
  }
  // It runs again.
  expect((await fetch(`${url}/readyz`)).status).toBe(200);
});

test('a port in use fails the start', async () => {
  const other = createServer().listen(0, '127.0.0.1');
  await new Promise((listening) => other.once('listening', listening));
  const address = other.address();
  const port = typeof address === 'object' && address ? address.port : 0;
  const readiness = async () => READY;
  await expect(startProbePort({ host: '127.0.0.1', port, readiness, logger })).rejects.toThrow(
    'EADDRINUSE',
  );
  other.close();
});
