import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { afterEach, expect, test } from '@jest/globals';
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

const PATHS = [
  '/oauth/token',
  '/oauth/register',
  '/partners/oauth/token',
  '/portal/invitation',
  '/r/made-up',
];

test.each(PATHS)(
  'the open requests of an address at %s have a part of the slots, which it gets back when it disconnects',
  async (path) => {
    stack = await startSignInStack({ replicas: 1, MAX_REQUESTS_IN_FLIGHT: SIZE });
    for (let round = 0; round < 3; round += 1) {
      const slow: Socket[] = [];
      const rejected = await until(async () => {
        const response = await from('203.0.113.1');
        if (response.status === 429) return response;
        slow.push(await begin(path, '203.0.113.1'));
        return undefined;
      });
      expect(Number(rejected.headers.get('retry-after'))).toBeGreaterThanOrEqual(1);
      expect(await rejected.json()).toMatchObject({ error: 'temporarily_unavailable', errors: {} });
      expect((await from('203.0.113.2')).status).toBe(200);
      for (const socket of slow) socket.destroy();
      await until(async () => (await from('203.0.113.1')).status === 200);
    }
  },
);

test('bodies of many addresses that do not arrive leave the slots to others', async () => {
  stack = await startSignInStack({ replicas: 1, MAX_REQUESTS_IN_FLIGHT: 8 });
  // More than a burst may have: four times the slots.
  for (let nth = 1; nth <= 40; nth += 1) {
    const address = `203.0.113.${nth}`;
    await until(async () => {
      if ((await from(address)).status === 429) return true;
      await begin('/oauth/token', address);
      return false;
    });
  }
  expect((await from('198.51.100.1')).status).toBe(200);
});
