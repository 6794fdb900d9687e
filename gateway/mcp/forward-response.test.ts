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

/** Forwards `body` as an event stream to one request; returns both ends of the stream. */
async function forwarded(body: ReadableStream): Promise<{
  readonly res: ServerResponse;
  readonly answer: IncomingMessage;
  readonly over: Promise<void>;
}> {
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  const { port } = server.address() as AddressInfo;
  const sent = request({ port, host: '127.0.0.1', agent: false }).end();
  const [req, res] = (await once(server, 'request')) as [IncomingMessage, ServerResponse];
  for (let nth = 0; nth < OWN_LISTENERS; nth += 1) res.once('close', () => {});
  const response = new Response(body, { headers: { 'content-type': 'text/event-stream' } });
  const over = forwardResponse(response, { req, res, headers: {}, hold: () => undefined });
  const [answer] = (await once(sent, 'response')) as [IncomingMessage];
  return { res, answer, over };
}

test('a stream arrives completely, and Node does not warn of a listener leak', async () => {
  let more: ((text?: string) => void) | undefined;
  const body = new ReadableStream({
    start(controller) {
      more = (text) =>
        text === undefined ? controller.close() : controller.enqueue(Buffer.from(text));
    },
  });
  const { res, answer, over } = await forwarded(body);
  let text = '';
  answer.setEncoding('utf8').on('data', (piece) => {
    text += piece;
  });
  more?.('data: 1\n\n');
  await until(() => text !== '');
  expect(res.listenerCount('close')).toBeLessThanOrEqual(res.getMaxListeners());
  // More than a socket buffers.
  const large = 'x'.repeat(8 * 2 ** 20);
  more?.(large);
  more?.();
  await over;
  await once(answer, 'end');
  expect(text === `data: 1\n\n${large}`).toBe(true);
});

test('a client that disconnects ends the source', async () => {
  let cancelled = false;
  const body = new ReadableStream({
    start: (controller) => controller.enqueue(Buffer.from('data: 1\n\n')),
    cancel() {
      cancelled = true;
    },
  });
  const { answer, over } = await forwarded(body);
  answer.destroy();
  await over;
  await until(() => cancelled);
});
