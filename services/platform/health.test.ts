import { Code, ConnectError, createClient } from '@connectrpc/connect';
import { createGrpcTransport } from '@connectrpc/connect-node';
import { expect, jest, test } from '@jest/globals';
import { Health } from '../../proto/gen/grpc/health/v1/health_pb.ts';
import { currentCaller, forCaller } from './caller.ts';
import { databaseProbe } from './health.ts';
import { startLiveness } from './liveness.ts';
import type { Queryable } from './postgres.ts';

/** A database that counts its queries and returns what the test sets. */
function database(answer: () => Promise<unknown>) {
  let asked = 0;
  const query = () => {
    asked += 1;
    return answer();
  };
  // The code uses only `query`, and only whether it resolves or rejects.
  return { pool: { query } as unknown as Queryable, asked: () => asked };
}

test('a database that answers is ready, one that fails is not', async () => {
  expect(await databaseProbe(database(async () => ({ rows: [] })).pool)()).toBe(true);
  const failing = database(() => Promise.reject(new Error('unavailable')));
  expect(await databaseProbe(failing.pool)()).toBe(false);
});

test('one pool that answers is enough', async () => {
  const hanging = database(() => new Promise(() => {}));
  const { pool } = database(async () => ({ rows: [] }));
  expect(await databaseProbe(hanging.pool, pool)()).toBe(true);
  expect(await databaseProbe(pool, hanging.pool)()).toBe(true);
});

test('a caller that disconnects does not cancel the probe for other callers', async () => {
  const seen: (AbortSignal | undefined)[] = [];
  const { pool } = database(async () => seen.push(currentCaller()));
  const probe = databaseProbe(pool);
  expect(await forCaller(new AbortController().signal, probe)).toBe(true);
  expect(seen).toEqual([undefined]);
});

test('many probes share one query', async () => {
  // All probes start at the same time, however long this takes.
  jest.useFakeTimers();
  try {
    const { pool, asked } = database(async () => ({ rows: [] }));
    const probe = databaseProbe(pool);
    await Promise.all(Array.from({ length: 50 }, probe));
    await probe();
    expect(asked()).toBe(1);
  } finally {
    jest.useRealTimers();
  }
});

test('a database that hangs is not ready after two seconds', async () => {
  jest.useFakeTimers();
  try {
    const hanging = database(() => new Promise(() => {}));
    const ready = databaseProbe(hanging.pool)();
    await jest.advanceTimersByTimeAsync(2_000);
    expect(await ready).toBe(false);
  } finally {
    jest.useRealTimers();
  }
});

test('a check, which needs no token, cannot be large', async () => {
  const server = await startLiveness({ port: 0 });
  const transport = createGrpcTransport({ baseUrl: `http://127.0.0.1:${server.port}` });
  const check = createClient(Health, transport).check({ service: 'x'.repeat(5_000) });
  const error = await check.catch((thrown: unknown) => ConnectError.from(thrown));
  expect(error).toMatchObject({ code: Code.ResourceExhausted });
  await server.stop();
});
