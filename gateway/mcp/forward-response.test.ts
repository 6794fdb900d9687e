import { once } from 'node:events';
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, expect, test } from '@jest/globals';
import { until } from '../../test/kit/until.ts';
import { forwardResponse } from './forward-response.ts';

/** The listeners that the gateway adds to a response of this route. */
const OWN_LISTENERS = 4;

const server = createServer();
afterEach(async () => {
  const closed = once(server.close(), 'close');
  server.closeAllConnections();
  await closed;
});

/** Forwards `body` as an event stream. Returns both ends of the stream. */
async function forwarded(body: ReadableStream): Promise<{
  readonly res: ServerResponse;
  readonly received: IncomingMessage;
  readonly finished: Promise<void>;
}> {
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  const { port } = server.address() as AddressInfo;
  const sent = request({ port, host: '127.0.0.1', agent: false }).end();
  const [req, res] = (await once(server, 'request')) as [IncomingMessage, ServerResponse];
  for (let nth = 0; nth < OWN_LISTENERS; nth += 1) res.once('close', () => {});
  const response = new Response(body, { headers: { 'content-type': 'text/event-stream' } });
  const finished = forwardResponse(response, { req, res, headers: {}, reserve: () => undefined });
  const [received] = (await once(sent, 'response')) as [IncomingMessage];
  return { res, received, finished };
}

test('a stream arrives completely, and Node does not warn of a listener leak', async () => {
  let more: ((text?: string) => void) | undefined;
  const body = new ReadableStream({
    start(controller) {
      more = (text) =>
        text === undefined ? controller.close() : controller.enqueue(Buffer.from(text));
    },
  });
  const { res, received, finished } = await forwarded(body);
  let text = '';
  received.setEncoding('utf8').on('data', (piece) => {
    text += piece;
  });
  more?.('data: 1\n\n');
  await until(() => text !== '');
  expect(res.listenerCount('close')).toBeLessThanOrEqual(res.getMaxListeners());
  // More than the socket's buffers hold.
  const large = 'x'.repeat(8 * 2 ** 20);
  more?.(large);
  more?.();
  await finished;
  await once(received, 'end');
  expect(text === `data: 1\n\n${large}`).toBe(true);
});

test('the source ends when the client disconnects', async () => {
  let cancelled = false;
  const body = new ReadableStream({
    start: (controller) => controller.enqueue(Buffer.from('data: 1\n\n')),
    cancel() {
      cancelled = true;
    },
  });
  const { received, finished } = await forwarded(body);
  received.destroy();
  await finished;
  await until(() => cancelled);
});
