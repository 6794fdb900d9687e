import { create } from '@bufbuild/protobuf';
import { Code, ConnectError } from '@connectrpc/connect';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { CartsService, GetCartResponseSchema } from '../../../proto/gen/rms/carts/v1/carts_pb.ts';
import {
  actor,
  cart,
  failure,
  type RpcBench,
  startRpcBench,
} from '../../../test/kit/services/rpc-bench.ts';
import { until } from '../../../test/kit/until.ts';
import { isUnavailable } from '../errors.ts';
import { kubernetesIdentity } from '../identity.ts';
import { currentTraceparent, inSpan } from '../telemetry.ts';
import { createServiceClient } from './client.ts';

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
  }, 90_000);

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
  expect(await (await fetch(bench.telemetry.metricsUrl)).text()).toMatch(
    /rpc_server_call_duration_seconds_count\{.*rpc_method="GetCart".*"OK".*\} 1/,
  );
});
