import { once } from 'node:events';
import http2 from 'node:http2';
import { type AddressInfo, connect, createServer } from 'node:net';
import { fromBinary } from '@bufbuild/protobuf';
import { FileDescriptorProtoSchema } from '@bufbuild/protobuf/wkt';
import { Code, ConnectError, createClient } from '@connectrpc/connect';
import { createGrpcTransport } from '@connectrpc/connect-node';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { Health } from '../../../proto/gen/grpc/health/v1/health_pb.ts';
import { ServerReflection } from '../../../proto/gen/grpc/reflection/v1/reflection_pb.ts';
import { ServerReflection as ServerReflectionAlpha } from '../../../proto/gen/grpc/reflection/v1alpha/reflection_pb.ts';
import { CartsService } from '../../../proto/gen/rms/carts/v1/carts_pb.ts';
import {
  actor,
  cart,
  failure,
  identity,
  type RpcBench,
  startRpcBench,
} from '../../../test/kit/services/rpc-bench.ts';
import { isUnavailable } from '../values/errors.ts';
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
  const startCarts = (o: Pick<ServerOptions, 'authenticate' | 'requestMs'>) =>
    startGrpcServer({
      port: 0,
      ...o,
      routes: (router) => void router.service(CartsService, { getCart: () => ({}) }),
    });

  test.each(['x:99999', '[', 'a%b', '[fe80::1%eth0]'])(
    'whose authority is %s gets 400, and the server continues',
    async (authority) => {
      const server = await startCarts({ authenticate: rejected });
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
    const server = await startCarts({ authenticate: rejected });
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

describe('a connection without a valid token', () => {
  const head = {
    ':method': 'POST',
    ':path': `/${CartsService.typeName}/GetCart`,
    'content-type': 'application/grpc',
    te: 'trailers',
  };
  const withToken = { ...head, authorization: 'Bearer valid' };
  const start = () =>
    startGrpcServer({
      port: 0,
      async authenticate({ requestHeader, service }) {
        if (service.typeName === Health.typeName) return false;
        if (requestHeader.get('authorization') === 'Bearer valid') return true;
        throw new ConnectError('no token', Code.Unauthenticated);
      },
      routes(router) {
        router.service(CartsService, { getCart: () => ({}) });
        router.service(Health, { check: () => ({}) });
      },
    });
  const open = async (port: number) => {
    const session = http2.connect(`http://127.0.0.1:${port}`);
    session.on('error', () => {});
    if (!session.remoteSettings.maxConcurrentStreams) await once(session, 'remoteSettings');
    return session;
  };
  const statusOf = async (call: http2.ClientHttp2Stream) => {
    const [trailers] = await once(call.resume(), 'trailers');
    return Number(trailers['grpc-status']);
  };

  test('may have few open calls, and many after its first valid token', async () => {
    const server = await start();
    const session = await open(server.port);
    expect(session.remoteSettings).toMatchObject({ maxConcurrentStreams: 16 });
    const check = session.request({ ...head, ':path': '/grpc.health.v1.Health/Check' });
    check.end(Buffer.alloc(5));
    expect(await statusOf(check)).toBe(0);
    const more = once(session, 'remoteSettings');
    expect(await statusOf(session.request(withToken).end(Buffer.alloc(5)))).toBe(0);
    await more;
    expect(session.remoteSettings).toMatchObject({ maxConcurrentStreams: 4_000 });
    expect(await statusOf(session.request(head).end(Buffer.alloc(5)))).toBe(Code.Unauthenticated);
    expect(await statusOf(session.request(withToken).end(Buffer.alloc(5)))).toBe(0);
    session.destroy();
    await server.stop();
  });

  test('ends at its first refusal, whatever stays open; the caller learns why', async () => {
    const server = await start();
    const session = await open(server.port);
    const closed = once(session, 'close');
    const calls = Array.from({ length: 16 }, () => session.request(head, { endStream: false }));
    for (const call of calls) call.on('error', () => {});
    expect(await statusOf(calls[0] as http2.ClientHttp2Stream)).toBe(Code.Unauthenticated);
    await closed;
    await server.stop();
  });

  test('gets no answer to a head of more than 16 KiB', async () => {
    const server = await start();
    const session = await open(server.port);
    expect(session.remoteSettings.maxHeaderListSize).toBe(16 * 1024);
    const call = session.request({ ...withToken, filler: 'x'.repeat(20_000) });
    await expect(once(call, 'response')).rejects.toThrow();
    session.destroy();
    await server.stop();
  });

  test('ends when 200 newer ones have none either; a caller with a token is served', async () => {
    const server = await start();
    const first = await open(server.port);
    const closed = once(first, 'close');
    const others = await Promise.all(Array.from({ length: 200 }, () => open(server.port)));
    await closed;
    const caller = await open(server.port);
    expect(await statusOf(caller.request(withToken).end(Buffer.alloc(5)))).toBe(0);
    for (const session of [caller, ...others]) session.destroy();
    await server.stop();
  });
});

describe('reflection', () => {
  let bench: RpcBench;
  beforeEach(async () => {
    bench = await startRpcBench();
  });
  afterEach(() => bench.close());

  type Question =
    | { case: 'listServices'; value: string }
    | { case: 'fileByFilename'; value: string }
    | { case: 'fileContainingSymbol'; value: string }
    | { case: 'allExtensionNumbersOfType'; value: string };

  async function ask(
    service: typeof ServerReflection | typeof ServerReflectionAlpha,
    questions: Question[],
    headers: Record<string, string>,
  ) {
    const { port } = await bench.serve({});
    const transport = createGrpcTransport({ baseUrl: `http://127.0.0.1:${port}` });
    async function* requests() {
      for (const messageRequest of questions) yield { host: 'h', messageRequest };
    }
    const answers = [];
    const { serverReflectionInfo } = createClient(service, transport);
    for await (const answer of serverReflectionInfo(requests(), { headers })) answers.push(answer);
    return answers;
  }

  const token = async () => ({ authorization: `Bearer ${await identity.token()}` });

  describe.each([
    ['v1', ServerReflection],
    ['v1alpha', ServerReflectionAlpha],
  ])('reflection %s', (_, service) => {
    test('lists the services', async () => {
      const [answer] = await ask(service, [{ case: 'listServices', value: '*' }], await token());
      expect(answer?.messageResponse.value).toMatchObject({
        service: [{ name: 'grpc.health.v1.Health' }, { name: 'rms.carts.v1.CartsService' }],
      });
      expect(answer).toMatchObject({ validHost: 'h', originalRequest: { host: 'h' } });
    });

    test('returns the file of a symbol with all its imports', async () => {
      const symbols = [
        'rms.carts.v1.CartsService',
        'rms.carts.v1.CartsService.GetCart',
        'rms.carts.v1.CreateCartRequest',
        'rms.common.v1.Actor.Kind',
        'rms.common.v1.ErrorInfo',
      ];
      const answers = await ask(
        service,
        symbols.map((value) => ({ case: 'fileContainingSymbol', value })),
        await token(),
      );
      const files = answers.map(({ messageResponse }) => {
        if (messageResponse.case !== 'fileDescriptorResponse') throw new Error('no file');
        return messageResponse.value.fileDescriptorProto.map(
          (bytes) => fromBinary(FileDescriptorProtoSchema, bytes).name,
        );
      });
      const carts = [
        'rms/carts/v1/carts.proto',
        'google/protobuf/timestamp.proto',
        'rms/common/v1/actor.proto',
      ];
      expect(files).toEqual([
        carts,
        carts,
        carts,
        ['rms/common/v1/actor.proto'],
        ['rms/common/v1/error.proto'],
      ]);
    });

    test('reports an unknown symbol', async () => {
      const answers = await ask(
        service,
        [
          { case: 'fileContainingSymbol', value: 'no.Such' },
          { case: 'fileByFilename', value: 'no.proto' },
        ],
        await token(),
      );
      for (const { messageResponse } of answers) {
        expect(messageResponse).toMatchObject({ value: { errorCode: Code.NotFound } });
      }
    });

    test('needs the token', async () => {
      const error = await failure(ask(service, [{ case: 'listServices', value: '' }], {}));
      expect(error.code).toBe(Code.Unauthenticated);
    });
  });
});
