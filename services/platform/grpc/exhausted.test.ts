import { once } from 'node:events';
import http2 from 'node:http2';
import type { AddressInfo } from 'node:net';
import { create, toBinary } from '@bufbuild/protobuf';
import { expect, jest, test } from '@jest/globals';
import {
  CartsService,
  GetCartRequestSchema,
  GetCartResponseSchema,
} from '../../../proto/gen/rms/carts/v1/carts_pb.ts';
import { actor, cart, failure, identity } from '../../../test/kit/services/rpc-bench.ts';
import { isUnavailable } from '../errors.ts';
import { createServiceClient } from './client.ts';
import { startGrpcServer } from './server.ts';

const LARGE = 'x'.repeat(4 * 1024 * 1024);
const HEADERS = { 'content-type': 'application/grpc', te: 'trailers', ':method': 'POST' };
const PATH = '/rms.carts.v1.CartsService/GetCart';

/** A gRPC message: no compression, length, bytes. */
function framed(bytes: Uint8Array): Buffer {
  const head = Buffer.alloc(5);
  head.writeUInt32BE(bytes.length, 1);
  return Buffer.concat([head, bytes]);
}

const question = (token: string) =>
  framed(toBinary(GetCartRequestSchema, create(GetCartRequestSchema, { ...cart, token })));

function responseOrEnd(stream: http2.ClientHttp2Stream): Promise<unknown> {
  return new Promise((resolve) => {
    stream.on('error', resolve).once('response', resolve).once('close', resolve);
  });
}

test('large responses that callers do not read block no other calls, and print no output', async () => {
  const printed = jest.spyOn(console, 'error').mockImplementation(() => {});
  const failed: unknown[] = [];
  const server = await startGrpcServer({
    port: 0,
    logger: { error: (event: unknown) => void failed.push(event) },
    routes: (router) =>
      void router.service(CartsService, {
        getCart: ({ token }) => ({ cart: { token: token === 'large' ? LARGE : 'small' } }),
      }),
  });
  const session = http2.connect(`http://127.0.0.1:${server.port}`);
  for (let nth = 0; nth < 20; nth += 1) {
    const stream = session.request({ ...HEADERS, ':path': PATH });
    stream.end(question('large'));
    // No client reads, so the server keeps all but the first window of the response.
    await responseOrEnd(stream);
    stream.close(http2.constants.NGHTTP2_CANCEL);
  }
  const stream = session.request({ ...HEADERS, ':path': PATH });
  stream.end(question('small'));
  let status: unknown;
  stream.on('trailers', (trailers) => {
    status = trailers['grpc-status'];
  });
  stream.resume();
  await new Promise((resolve) => stream.on('error', () => {}).once('close', resolve));
  expect(status).toBe('0');
  // Includes a client that disconnects.
  const last = session.request({ ...HEADERS, ':path': PATH });
  last.end(question('large'));
  await responseOrEnd(last);
  session.destroy();
  await server.stop();
  expect([printed.mock.calls, failed]).toEqual([[], []]);
  printed.mockRestore();
});

test('a connection that its server reports as exhausted is replaced, and its call fails as unavailable', async () => {
  const sessions = new Set<http2.Http2Session | undefined>();
  const server = http2.createServer();
  server.on('stream', (stream) => {
    sessions.add(stream.session);
    stream.on('error', () => {});
    if (sessions.size === 1) return stream.close(http2.constants.NGHTTP2_ENHANCE_YOUR_CALM);
    stream.respond(
      { ':status': 200, 'content-type': 'application/grpc' },
      { waitForTrailers: true },
    );
    stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0' }));
    stream.end(framed(toBinary(GetCartResponseSchema, create(GetCartResponseSchema))));
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const target = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  const { client, close } = createServiceClient(CartsService, { target, identity });
  // The call may have been processed, so only its sender may repeat it.
  expect(isUnavailable(await failure(client.createCart({ shopId: 1n, actor })))).toBe(true);
  await client.getCart(cart);
  expect(sessions.size).toBe(2);
  close();
  server.close();
});
