import { Code, ConnectError } from '@connectrpc/connect';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { Health } from '../../../proto/gen/grpc/health/v1/health_pb.ts';
import {
  actor,
  cart,
  failure,
  identity,
  type RpcBench,
  startRpcBench,
} from '../../../test/kit/services/rpc-bench.ts';
import { until } from '../../../test/kit/until.ts';
import { isOverloaded } from '../errors.ts';
import { createServiceClient } from './client.ts';

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
    expect(metrics).toMatch(/rpc_server_shed_total\{.*rpc_method="GetCart".*\} 20/);
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
