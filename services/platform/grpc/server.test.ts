import { once } from 'node:events';
import http2 from 'node:http2';
import { type AddressInfo, connect, createServer } from 'node:net';
import { Code, ConnectError } from '@connectrpc/connect';
import { describe, expect, test } from '@jest/globals';
import { CartsService } from '../../../proto/gen/rms/carts/v1/carts_pb.ts';
import { actor, cart, failure, identity } from '../../../test/kit/services/rpc-bench.ts';
import { isUnavailable } from '../errors.ts';
import { createServiceClient } from './client.ts';
import { type ServerOptions, startGrpcServer } from './server.ts';

test('a hanging call gets a signal at the stop, and is cut off after the time limit', async () => {
  let entered: () => void = () => {};
  const inside = new Promise<void>((resolve) => {
    entered = resolve;
  });
  let hasAborted = false;
  const server = await startGrpcServer({
    port: 0,
    drainMs: 50,
    routes: (router) =>
      void router.service(CartsService, {
        getCart: (_, context) =>
          new Promise((_resolve, reject) => {
            context.signal.addEventListener('abort', () => {
              hasAborted = true;
              reject(context.signal.reason);
            });
            entered();
          }),
      }),
  });
  const target = `127.0.0.1:${server.port}`;
  const { client, close } = createServiceClient(CartsService, { target, identity });
  const call = failure(client.getCart(cart));
  await inside;
  await server.stop();
  expect(hasAborted).toBe(true);
  expect(isUnavailable(await call)).toBe(true);
  close();
});

test('after the stop the port is closed', async () => {
  const server = await startGrpcServer({ port: 0, routes: () => {} });
  await server.stop();
  const target = `127.0.0.1:${server.port}`;
  const { client, close } = createServiceClient(CartsService, { target, identity });
  expect(isUnavailable(await failure(client.createCart({ shopId: 1n, actor })))).toBe(true);
  close();
});

test('a connection ends at its age, and no call is lost or repeated because of it', async () => {
  let handled = 0;
  const server = await startGrpcServer({
    port: 0,
    maxAgeMs: 20,
    routes: (router) =>
      void router.service(CartsService, {
        createCart: () => {
          handled += 1;
          return {};
        },
      }),
  });
  let connections = 0;
  const counting = createServer((near) => {
    connections += 1;
    const far = connect(server.port, '127.0.0.1');
    near.on('error', () => far.destroy()).pipe(far);
    far.on('error', () => near.destroy()).pipe(near);
  });
  await once(counting.listen(0, '127.0.0.1'), 'listening');
  const { port } = counting.address() as AddressInfo;
  const target = `127.0.0.1:${port}`;
  const { client, close } = createServiceClient(CartsService, { target, identity });
  const sent = { shopId: 1n, actor };
  for (let round = 0; round < 100; round += 1) {
    // A caller must not repeat such a call unless it knows that the server did not process it.
    await Promise.all(Array.from({ length: 16 }, () => client.createCart(sent)));
  }
  expect(handled).toBe(1_600);
  expect(connections).toBeGreaterThan(3);
  close();
  counting.close();
  await server.stop();
});

describe('a caller of HTTP/2 without a library', () => {
  const path = '/rms.carts.v1.CartsService/GetCart';
  const head = {
    ':method': 'POST',
    ':path': path,
    'content-type': 'application/grpc',
    te: 'trailers',
  };
  const rejected = async () => {
    throw new ConnectError('no token', Code.Unauthenticated);
  };
  const startCarts = (o: Pick<ServerOptions, 'admit' | 'requestMs'>) =>
    startGrpcServer({
      port: 0,
      ...o,
      routes: (router) => void router.service(CartsService, { getCart: () => ({}) }),
    });

  test.each(['x:99999', '[', 'a%b', '[fe80::1%eth0]'])(
    'whose authority is %s gets 400, and the server continues',
    async (authority) => {
      const server = await startCarts({ admit: rejected });
      const session = http2.connect(`http://127.0.0.1:${server.port}`);
      const odd = session.request({ ...head, ':authority': authority }).end();
      const [headers] = await once(odd, 'response');
      expect(headers[':status']).toBe(400);
      const call = session.request(head).end();
      const [trailers] = await once(call.resume(), 'trailers');
      expect(trailers['grpc-status']).toBe(String(Code.Unauthenticated));
      session.destroy();
      await server.stop();
    },
  );

  test('who does not complete a rejected request gets the error, and no stream stays open', async () => {
    const server = await startCarts({ admit: rejected });
    const session = http2.connect(`http://127.0.0.1:${server.port}`);
    const call = session.request(head, { endStream: false });
    const closed = once(call, 'close');
    const [trailers] = await once(call.resume(), 'trailers');
    expect(trailers['grpc-status']).toBe(String(Code.Unauthenticated));
    await closed;
    session.destroy();
    await server.stop();
  });

  test('who does not complete an accepted request is cut off after the time limit', async () => {
    const server = await startCarts({ requestMs: 50 });
    const session = http2.connect(`http://127.0.0.1:${server.port}`);
    const call = session.request(head, { endStream: false });
    await once(call.resume(), 'close');
    expect(call.rstCode).toBe(http2.constants.NGHTTP2_CANCEL);
    session.destroy();
    await server.stop();
  });
});
