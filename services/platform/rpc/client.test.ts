import { once } from 'node:events';
import http2 from 'node:http2';
import type { AddressInfo } from 'node:net';
import { create, toBinary } from '@bufbuild/protobuf';
import { Code, ConnectError } from '@connectrpc/connect';
import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals';
import { SpanKind, SpanStatusCode } from '@opentelemetry/api';
import { Health } from '../../../proto/gen/grpc/health/v1/health_pb.ts';
import {
  CartsService,
  GetCartRequestSchema,
  GetCartResponseSchema,
} from '../../../proto/gen/rms/carts/v1/carts_pb.ts';
import { ErrorReason } from '../../../proto/gen/rms/common/v1/error_pb.ts';
import {
  actor,
  cart,
  failure,
  identity,
  type RpcBench,
  startRpcBench,
} from '../../../test/kit/services/rpc-bench.ts';
import { until } from '../../../test/kit/until.ts';
import { kubernetesIdentity } from '../security/identity.ts';
import { currentTraceparent, inSpan } from '../telemetry/telemetry.ts';
import {
  DomainError,
  fieldOf,
  invalidField,
  isOverloaded,
  isUnavailable,
  reasonOf,
} from '../values/errors.ts';
import { createServiceClient } from './client.ts';
import { startGrpcServer } from './server.ts';

describe('client', () => {
  let bench: RpcBench;
  beforeEach(async () => {
    bench = await startRpcBench();
  });
  afterEach(() => bench.close());

  describe('deadlines and retries', () => {
    test("a call that hangs fails at its deadline, and the handler's signal aborts", async () => {
      let hasAborted = false;
      const server = await bench.serve({
        createCart: () => ({}),
        getCart: (_, context) =>
          new Promise((_resolve, reject) => {
            const onAbort = () => {
              hasAborted = true;
              reject(context.signal.reason);
            };
            if (context.signal.aborted) onAbort();
            else context.signal.addEventListener('abort', onAbort);
          }),
      });
      const client = bench.clientOf(server, { timeoutMs: 1_000 });
      // Connect first, so that the deadline finds the call inside the handler.
      await client.createCart({ shopId: 1n, actor }, { timeoutMs: 10_000 });
      // On a slow machine the deadline may pass before the handler starts. Then the test makes another call.
      await until(async () => {
        const error = await failure(client.getCart(cart));
        expect(error.code).toBe(Code.DeadlineExceeded);
        expect(isUnavailable(error)).toBe(true);
        return hasAborted;
      });
      const own = await failure(bench.clientOf(server).getCart(cart, { timeoutMs: 50 }));
      expect(own.code).toBe(Code.DeadlineExceeded);
    });

    test('a call whose token cannot be read is UNAVAILABLE, and the text names no file', async () => {
      const file = '/no/such/file';
      const settings = { tokenFile: file, jwksFile: file, issuer: 'cluster', subjects: ['*'] };
      const service = { target: '127.0.0.1:1', identity: kubernetesIdentity(settings) };
      const { client, close } = createServiceClient(CartsService, service);
      bench.cleanups.push(close);
      const error = await failure(client.getCart(cart));
      const text = 'the service token cannot be read';
      expect([error.code, error.rawMessage]).toEqual([Code.Unavailable, text]);
      expect(String(error.cause)).toContain(file);
    });

    test('a call that its caller gives up is cancelled', async () => {
      const server = await bench.serve({ getCart: () => new Promise(() => {}) });
      const giveUp = new AbortController();
      const call = failure(bench.clientOf(server).getCart(cart, { signal: giveUp.signal }));
      giveUp.abort();
      expect((await call).code).toBe(Code.Canceled);
      await new Promise((resolve) => setImmediate(resolve));
    });

    test('only calls that the proto marks as repeatable and keyed calls are repeated', async () => {
      const calls = { getCart: 0, createCart: 0 };
      const unavailable = (name: keyof typeof calls) => {
        calls[name] += 1;
        throw new ConnectError('unavailable', Code.Unavailable);
      };
      const server = await bench.serve({
        getCart: () => unavailable('getCart'),
        createCart: () => unavailable('createCart'),
      });
      await failure(bench.clientOf(server).getCart(cart));
      await failure(bench.clientOf(server).createCart({ shopId: 1n, actor }));
      expect(calls).toEqual({ getCart: 3, createCart: 1 });
      const keyed = { shopId: 1n, actor, idempotencyKey: 'k' };
      await failure(bench.clientOf(server).createCart(keyed));
      expect(calls).toEqual({ getCart: 3, createCart: 4 });
    });

    test('a service that restarts on its port is found again', async () => {
      const first = await bench.serve({ getCart: () => ({}) });
      const client = bench.clientOf(first);
      await client.getCart(cart);
      await first.stop();
      expect(isUnavailable(await failure(client.createCart({ shopId: 1n, actor })))).toBe(true);
      await bench.serve({ getCart: () => ({}) }, { port: first.port });
      await until(() =>
        client.getCart(cart).then(
          () => true,
          () => false,
        ),
      );
    });
  });

  describe('size and end', () => {
    test('a message of 32 MiB passes both ways', async () => {
      const text = 'x'.repeat(32 * 1024 * 1024);
      const server = await bench.serve({
        getCart: ({ token }) => create(GetCartResponseSchema, { cart: { token } }),
      });
      const answer = await bench
        .clientOf(server)
        .getCart({ ...cart, token: text }, { timeoutMs: 60_000 });
      expect(answer.cart?.token.length).toBe(text.length);
    });

    test('a stop lets the call in flight finish and then ends the idle connection', async () => {
      let entered: () => void = () => {};
      const inside = new Promise<void>((resolve) => {
        entered = resolve;
      });
      let release: () => void = () => {};
      const held = new Promise<void>((resolve) => {
        release = resolve;
      });
      const server = await bench.serve({
        getCart: async () => {
          entered();
          await held;
          return {};
        },
      });
      const call = bench.clientOf(server).getCart(cart);
      await inside;
      const stopped = server.stop();
      release();
      await call;
      await stopped;
      await server.stop();
    });
  });

  test('one trace covers the caller, the client and the handler', async () => {
    let inHandler = '';
    const server = await bench.serve({
      getCart: () => {
        inHandler = currentTraceparent();
        return {};
      },
    });
    const client = bench.clientOf(server);
    const outside = await inSpan(bench.telemetry.tracer, { name: 'HTTP' }, async () => {
      await client.getCart(cart);
      return currentTraceparent();
    });
    const traceId = outside.split('-')[1];
    expect(inHandler.split('-')[1]).toBe(traceId);
    const finished = bench.spans.getFinishedSpans();
    expect(finished.map((span) => span.name)).toEqual([
      'rms.carts.v1.CartsService/GetCart',
      'rms.carts.v1.CartsService/GetCart',
      'HTTP',
    ]);
    expect(new Set(finished.map((span) => span.spanContext().traceId))).toEqual(new Set([traceId]));
    const [onServer, onClient] = finished;
    const call = {
      'rpc.system.name': 'grpc',
      'rpc.method': 'rms.carts.v1.CartsService/GetCart',
      'rpc.status_code': 'OK',
    };
    expect(onServer?.attributes).toEqual(call);
    const { port } = server;
    expect(onClient?.attributes).toEqual({
      ...call,
      'server.address': '127.0.0.1',
      'server.port': port,
    });
    const labels = 'rpc_system_name="grpc",rpc_method="rms.carts.v1.CartsService/GetCart"';
    const metrics = await (await fetch(bench.telemetry.metricsUrl)).text();
    expect(metrics).toContain(
      `rpc_server_call_duration_seconds_count{${labels},rpc_status_code="OK"} 1`,
    );
    expect(metrics).toContain(
      `rpc_client_call_duration_seconds_count{server_address="127.0.0.1",server_port="${port}",${labels},rpc_status_code="OK"} 1`,
    );
  });

  test('an error of the caller is one of the client only, an error of the server one of both', async () => {
    const client = bench.clientOf(
      await bench.serve({
        getCart: () => {
          throw new ConnectError('no such cart', Code.NotFound);
        },
        createCart: () => {
          throw new Error('a fault of our code');
        },
      }),
    );
    await failure(client.getCart(cart));
    await failure(client.createCart({ shopId: 1n, actor, idempotencyKey: 'k' }));
    const ends = bench.spans
      .getFinishedSpans()
      .map(({ kind, status, attributes }) => [
        SpanKind[kind],
        status.code === SpanStatusCode.ERROR,
        attributes['rpc.status_code'],
        attributes['error.type'],
      ]);
    expect(ends).toEqual([
      ['SERVER', false, 'NOT_FOUND', undefined],
      ['CLIENT', true, 'NOT_FOUND', 'NOT_FOUND'],
      ['SERVER', true, 'INTERNAL', 'INTERNAL'],
      ['CLIENT', true, 'INTERNAL', 'INTERNAL'],
    ]);
  });
});

describe('errors over gRPC', () => {
  let bench: RpcBench;
  beforeEach(async () => {
    bench = await startRpcBench();
  });
  afterEach(() => bench.close());

  test('a DomainError keeps its code, text, reason and field', async () => {
    const server = await bench.serve({
      getCart: () => {
        throw new DomainError(Code.NotFound, ErrorReason.CART_NOT_FOUND, 'no cart – “x”');
      },
      createCart: () => {
        throw invalidField('cart[0]', 'must be an id');
      },
    });
    const absent = await failure(bench.clientOf(server).getCart(cart));
    expect([absent.code, absent.rawMessage]).toEqual([Code.NotFound, 'no cart – “x”']);
    expect([reasonOf(absent), fieldOf(absent)]).toEqual([ErrorReason.CART_NOT_FOUND, undefined]);
    const invalid = await failure(bench.clientOf(server).createCart({ shopId: 1n, actor }));
    expect([invalid.code, fieldOf(invalid)]).toEqual([Code.InvalidArgument, 'cart[0]']);
    expect(bench.logged).toEqual([]);
  });

  test('any other error is INTERNAL; its text is logged and not returned to the caller', async () => {
    const server = await bench.serve({
      getCart: () => {
        throw new TypeError('row of table carts');
      },
    });
    const error = await failure(bench.clientOf(server).getCart(cart));
    expect([error.code, error.rawMessage]).toEqual([Code.Internal, 'internal error']);
    expect(bench.logged.join()).toContain('row of table carts');
  });

  test('an unavailable database is UNAVAILABLE, without text', async () => {
    const server = await bench.serve({
      createCart: () => {
        throw Object.assign(new Error('connect db:5432'), { code: 'ECONNREFUSED' });
      },
    });
    const error = await failure(bench.clientOf(server).createCart({ shopId: 1n, actor }));
    expect([error.code, error.rawMessage]).toEqual([Code.Unavailable, 'unavailable']);
    expect(isUnavailable(error)).toBe(true);
  });

  test('a DomainError of another service passes unchanged, its outage without text', async () => {
    const down = await bench.serve({
      getCart: () => {
        throw new DomainError(Code.NotFound, ErrorReason.CART_NOT_FOUND, 'no cart');
      },
    });
    const middle = await bench.serve({
      getCart: () => bench.clientOf(down).getCart(cart),
      createCart: async () => {
        await bench.clientOf({ port: 1 }).getCart(cart);
        return {};
      },
    });
    expect(reasonOf(await failure(bench.clientOf(middle).getCart(cart)))).toBe(
      ErrorReason.CART_NOT_FOUND,
    );
    const outage = await failure(bench.clientOf(middle).createCart({ shopId: 1n, actor }));
    expect([outage.code, outage.rawMessage]).toEqual([Code.Unavailable, 'unavailable']);
  });

  test('a service that rejects our token is an internal error for the caller', async () => {
    const down = await bench.serve({});
    const middle = await bench.serve({
      getCart: () => bench.clientOf(down, { token: 'u'.repeat(32) }).getCart(cart),
    });
    expect((await failure(bench.clientOf(middle).getCart(cart))).code).toBe(Code.Internal);
  });
});

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
    logger: { error: (event: unknown) => void failed.push(event), warn: () => {} },
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

describe('in flight', () => {
  const SIZE = 2;
  const PATIENT = { timeoutMs: 60_000 };

  let bench: RpcBench;
  beforeEach(async () => {
    bench = await startRpcBench();
  });
  afterEach(() => bench.close());

  /** A server whose reads do not finish before the test releases them. */
  async function startHolding() {
    const held = Promise.withResolvers<void>();
    const state = { begun: 0 };
    const server = await bench.serve(
      {
        getCart: async () => {
          state.begun += 1;
          await held.promise;
          return {};
        },
        createCart: () => ({}),
      },
      { maxCallsInFlight: SIZE },
    );
    return { server, state, client: bench.clientOf(server), letGo: held.resolve };
  }

  describe('calls in flight', () => {
    test('calls over the limit are rejected immediately and not retried; other calls are served', async () => {
      const { server, state, client, letGo } = await startHolding();
      const first = [client.getCart(cart, PATIENT), client.getCart(cart, PATIENT)];
      await until(() => state.begun === SIZE);

      const refused = await Promise.all(
        Array.from({ length: 20 }, () => failure(client.getCart(cart, PATIENT))),
      );
      expect(refused.every((error) => error.code === Code.Unavailable && isOverloaded(error))).toBe(
        true,
      );
      expect(state.begun).toBe(SIZE);
      // Hanging reads block neither writes nor probes.
      await client.createCart({ shopId: 1n, actor }, PATIENT);
      const target = `127.0.0.1:${server.port}`;
      const health = createServiceClient(Health, { target, identity });
      await health.client.check({});
      health.close();

      letGo();
      await Promise.all(first);
      await client.getCart(cart, PATIENT);
      const metrics = await (await fetch(bench.telemetry.metricsUrl)).text();
      expect(metrics).toMatch(/rpc_server_shed_total\{.*rpc_method=".*\/GetCart".*\} 20/);
    });

    test('work counts until it is done, even after its caller left', async () => {
      const { state, client, letGo } = await startHolding();
      const leaving = new AbortController();
      const left = [0, 1].map(() => failure(client.getCart(cart, { signal: leaving.signal })));
      await until(() => state.begun === SIZE);
      leaving.abort();
      await Promise.all(left);
      expect(isOverloaded(await failure(client.getCart(cart, PATIENT)))).toBe(true);
      letGo();
      await until(() => client.getCart(cart, PATIENT).then(Boolean, () => false));
    });
  });

  test('when every call fails, retries stay a tenth of the calls', async () => {
    let calls = 0;
    const server = await bench.serve({
      getCart: () => {
        calls += 1;
        throw new ConnectError('unavailable', Code.Unavailable);
      },
    });
    const client = bench.clientOf(server);
    const asked = 200;
    for (let nth = 0; nth < asked; nth += 20) {
      await Promise.all(Array.from({ length: 20 }, () => failure(client.getCart(cart, PATIENT))));
    }
    expect(calls).toBeGreaterThan(asked);
    expect(calls).toBeLessThanOrEqual(asked + 20 + asked / 10);
  });
});
