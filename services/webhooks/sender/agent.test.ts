import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { type Receiver, startReceiver } from '../../../test/support/webhooks.ts';
import type { UrlPolicy } from '../guard/guard.ts';
import { createDeliveryAgent } from './agent.ts';
import { createSender } from './send.ts';

let receiver: Receiver;
let port: number;

beforeAll(async () => {
  receiver = await startReceiver();
  port = Number(new URL(receiver.url).port);
});
afterAll(() => receiver.stop());

const ALLOWED = ['http://127.0.0.1:*'];

/** One attempt at an address, with names that lead where the test says. */
async function attempt(
  url: string,
  o: { names?: Record<string, string[]>; refused?: number[] } = {},
) {
  const policy: UrlPolicy = { allowedOrigins: ALLOWED, refusedPorts: () => o.refused ?? [] };
  const dispatcher = createDeliveryAgent(policy, async (name) => o.names?.[name] ?? []);
  const before = receiver.received.length;
  const send = createSender({ dispatcher, policy, attemptMs: 2_000 });
  const outcome = await send({ url, headers: {}, body: Buffer.from('{}') });
  await dispatcher.close();
  return { ...outcome, arrived: receiver.received.length - before };
}

describe('at each connect', () => {
  test('an allowed origin is reached', async () => {
    expect(await attempt(receiver.url)).toMatchObject({
      result: 'delivered',
      status: 200,
      arrived: 1,
    });
  });

  test('a name is judged by what it resolves to now', async () => {
    const url = `https://rebound.example.com:${port}/`;
    for (const address of ['127.0.0.1', '10.0.0.1', '169.254.169.254', '::1', '::ffff:127.0.0.1']) {
      const outcome = await attempt(url, { names: { 'rebound.example.com': [address] } });
      expect(outcome).toMatchObject({ status: 0, error: 'address not allowed', arrived: 0 });
    }
  });

  test('one bad address among good ones refuses all', async () => {
    const names = { 'mixed.example.com': ['8.8.8.8', '127.0.0.1'] };
    expect(await attempt(`https://mixed.example.com:${port}/`, { names })).toMatchObject({
      error: 'address not allowed',
      arrived: 0,
    });
  });

  test('a name without an address is refused', async () => {
    expect(await attempt('https://nowhere.example.com/')).toMatchObject({
      result: 'failed',
      arrived: 0,
    });
  });

  test.each([
    'http://localhost:PORT/',
    'http://2130706433:PORT/',
    'http://0x7f.1:PORT/',
    'http://[::ffff:127.0.0.1]:PORT/',
    'https://127.0.0.1:PORT/',
    'http://user@127.0.0.1:PORT/',
    'https://169.254.169.254/',
  ])('%s is refused although it was saved somehow', async (template) => {
    const outcome = await attempt(template.replace('PORT', String(port)));
    expect(outcome).toMatchObject({ status: 0, arrived: 0 });
    expect(outcome.error).toContain('address not allowed');
  });

  test('a port of this stack is refused', async () => {
    expect(await attempt(receiver.url, { refused: [port] })).toMatchObject({
      status: 0,
      arrived: 0,
    });
  });

  test('the client itself refuses literals, whatever was judged before', async () => {
    const policy: UrlPolicy = { allowedOrigins: [], refusedPorts: () => [] };
    const agent = createDeliveryAgent(policy, async () => []);
    for (const origin of [
      `http://127.0.0.1:${port}`,
      `https://127.0.0.1:${port}`,
      'https://[::1]',
    ]) {
      const sending = agent.request({ origin, path: '/', method: 'POST' });
      await expect(sending).rejects.toMatchObject({ name: 'AddressRefused' });
    }
    await agent.close();
  });

  test('a redirect is not followed', async () => {
    receiver.answer = (response) => {
      response.writeHead(307, { location: receiver.url }).end();
    };
    expect(await attempt(receiver.url)).toMatchObject({
      result: 'failed',
      status: 307,
      arrived: 1,
    });
  });

  test('a closed port is a refused connection', async () => {
    const gone = await startReceiver();
    await gone.stop();
    expect(await attempt(gone.url)).toMatchObject({ status: 0, error: 'connection refused' });
  });
});
