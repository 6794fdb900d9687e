import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { afterEach, describe, expect, test } from '@jest/globals';
import { type SignInStack, startSignInStack } from '../../test/kit/oauth/sign-in-stack.ts';
import { until } from '../../test/kit/until.ts';

/** The number of slots. An address may use a quarter of them. */
const SIZE = 16;
const METADATA = '/.well-known/oauth-protected-resource';

let stack: SignInStack;
afterEach(() => stack.stop());

/** Sends a request from an address without the rest of its body. */
async function begin(path: string, address: string): Promise<Socket> {
  const head = [
    `POST ${path} HTTP/1.1`,
    'Host: x',
    `X-Forwarded-For: ${address}`,
    'Content-Type: application/x-www-form-urlencoded',
    'Content-Length: 100',
    '',
    'a',
  ];
  const socket = connect(stack.under.gateway.port, '127.0.0.1');
  socket.on('error', () => socket.destroy()).resume();
  await once(socket, 'connect');
  socket.write(head.join('\r\n'));
  return socket;
}

const from = (address: string) =>
  fetch(`${stack.baseUrl}${METADATA}`, { headers: { 'x-forwarded-for': address } });

describe.each(['/oauth/token', '/oauth/register', '/partners/oauth/token', '/portal/invitation'])(
  'bodies that do not arrive, at %s',
  (path) => {
    test('occupy only the slots of their address, and at most for the time limit of headers', async () => {
      stack = await startSignInStack({
        replicas: 1,
        MAX_REQUESTS_IN_FLIGHT: SIZE,
        httpLimits: { headersMs: 3_000 },
      });
      const slow: Socket[] = [];
      const rejected = await until(async () => {
        const response = await from('203.0.113.1');
        if (response.status === 429) return response;
        slow.push(await begin(path, '203.0.113.1'));
        return undefined;
      });
      const left = slow.filter(({ closed }) => !closed).map((socket) => once(socket, 'close'));
      expect(Number(rejected.headers.get('retry-after'))).toBeGreaterThanOrEqual(1);
      expect(await rejected.json()).toMatchObject({ error: 'temporarily_unavailable', errors: {} });
      expect((await from('203.0.113.2')).status).toBe(200);

      await until(async () => (await from('203.0.113.1')).status === 200);
      await Promise.all(left);
    });
  },
);

test('disconnected clients release their slots, each once', async () => {
  stack = await startSignInStack({ replicas: 1, MAX_REQUESTS_IN_FLIGHT: SIZE });
  for (let round = 0; round < 3; round += 1) {
    const slow: Socket[] = [];
    await until(async () => {
      if ((await from('203.0.113.1')).status === 429) return true;
      slow.push(await begin('/oauth/token', '203.0.113.1'));
      return false;
    });
    for (const socket of slow) socket.destroy();
    await until(async () => (await from('203.0.113.1')).status === 200);
  }
});

/** Sends a form of an address up to the middle of its body, in chunks, and returns the connection. */
async function beginChunked(address: string): Promise<Socket> {
  const head = [
    'POST /oauth/token HTTP/1.1',
    'Host: x',
    `X-Forwarded-For: ${address}`,
    'Content-Type: application/x-www-form-urlencoded',
    'Transfer-Encoding: chunked',
    '',
    '1\r\na\r\n',
  ];
  const socket = connect(stack.under.gateway.port, '127.0.0.1');
  socket.on('error', () => socket.destroy());
  await once(socket, 'connect');
  socket.write(head.join('\r\n'));
  return socket;
}

describe('many addresses', () => {
  /** More than a burst may have: four times the slots. */
  const addresses = Array.from({ length: 40 }, (_, nth) => `203.0.113.${nth + 1}`);

  test('that do not send their bodies leave the slots to others', async () => {
    stack = await startSignInStack({
      replicas: 1,
      MAX_REQUESTS_IN_FLIGHT: 8,
      // No body reaches its time limit during the test.
      httpLimits: { headersMs: 100_000 },
    });
    for (const address of addresses) {
      await until(async () => {
        if ((await from(address)).status === 429) return true;
        await begin('/oauth/token', address);
        return false;
      });
    }
    expect((await from('198.51.100.1')).status).toBe(200);
  });

  test('that were rejected and do not send the rest leave the slots to others', async () => {
    stack = await startSignInStack({
      replicas: 1,
      MAX_REQUESTS_IN_FLIGHT: 8,
      TOKEN_PER_HOUR: 1,
    });
    for (const address of addresses) {
      await fetch(`${stack.baseUrl}/oauth/token`, {
        method: 'POST',
        headers: { 'x-forwarded-for': address },
        body: new URLSearchParams({ grant_type: 'none' }),
      });
      const socket = await beginChunked(address);
      const [response] = await once(socket, 'data');
      expect(String(response)).toMatch(/^HTTP\/1\.1 429 /);
    }
    expect((await from('198.51.100.1')).status).toBe(200);
  });
});
