import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { createTestDatabase, type TestDatabase } from '../../../../test/kit/database.ts';
import { lockWaits } from '../../../../test/kit/postgres/lock-waits.ts';
import { newShop } from '../../../../test/kit/services/running-service.ts';
import { testTelemetry } from '../../../../test/kit/services/telemetry.ts';
import { until } from '../../../../test/kit/until.ts';
import { newSubscription } from '../../../../test/kit/webhooks/subscription.ts';
import { sampleEvent } from '../../../contract/sample-event.ts';
import { createShardHolder, type ShardHolder } from '../../../platform/leases/shards.ts';
import { inTransaction } from '../../../platform/postgres/postgres.ts';
import { deliveriesOf, fanOut, lockQueues } from '../../fan-out/fan-out.ts';
import { NO_TIMING, type SendResult } from '../../sender/send-result.ts';
import { NEW_ENDPOINT } from '../endpoint/circuit-breaker.ts';
import { DELIVERY_LEASES, DELIVERY_SHARDS } from '../queue/queue-ref.ts';
import { type Due, readDue } from '../queue/read-due.ts';
import { requeue } from '../queue/requeue.ts';
import type { AttemptResult } from './attempt-result.ts';
import { deliveryMetrics } from './metrics.ts';
import { writeResults } from './write-results.ts';

let db: TestDatabase;
let shards: ShardHolder;

beforeAll(async () => {
  db = await createTestDatabase('webhooks');
  shards = createShardHolder({
    pool: db.pool,
    owner: randomUUID(),
    name: DELIVERY_LEASES,
    count: DELIVERY_SHARDS,
    // A long lease, so that a slow machine keeps the shards.
    leaseMs: 60_000,
  });
});
afterAll(() => db.drop());

const NO_LIMIT = { trusted: 1e9, new: 1e9, slow: 1e9, failing: 1e9 };

/** Deliveries of one subscription, read as due. */
async function read(count: number): Promise<Due[]> {
  const shopId = newShop();
  const subscriptionId = await newSubscription(db.pool, shopId);
  await inTransaction(db.pool, async (tx) => {
    const events = Array.from({ length: count }, () => sampleEvent('return.closed', shopId));
    const queues = await lockQueues(tx, events);
    const deliveries = deliveriesOf(events, queues, new Date('2026-11-21T00:00:00Z'));
    await fanOut(tx, deliveries, { offsetMs: 0 });
  });
  await shards.rebalance();
  const { rows } = await db.pool.query<{ endpointId: bigint }>(
    'select endpoint_id as "endpointId" from subscription_queues where shop_id = $1',
    [shopId],
  );
  const endpointId = rows[0]?.endpointId ?? 0n;
  return readOf({ shopId, subscriptionId, endpointId }, count);
}

/** The due deliveries of a queue. */
function readOf(
  { shopId, subscriptionId, endpointId }: Pick<Due, 'shopId' | 'subscriptionId' | 'endpointId'>,
  count: number,
): Promise<Due[]> {
  const reading = {
    shopId,
    subscriptionId,
    endpointId,
    limit: count,
    mode: 'all' as const,
    healthClass: 'trusted' as const,
    freshFromMs: 0,
    retriesFromMs: 0,
  };
  return readDue(db.pool, [reading], { except: [], maxBytes: NO_LIMIT, offsetMs: 0 });
}

function attemptResult(
  due: Due,
  kind: SendResult['kind'],
  token = shards.tokenOf(due.shard) ?? 0n,
): AttemptResult {
  const result: SendResult = {
    kind,
    startedAt: new Date(),
    durationMs: 5,
    timing: NO_TIMING,
    status: kind === 'delivered' ? 200 : 500,
    error: '',
    excerpt: 'answer',
    headers: '{"x-echo":"answer"}',
    retryAfterMs: undefined,
  };
  const isDelivered = kind === 'delivered';
  return {
    due,
    token,
    sent: { result, headers: '{}' },
    ended: isDelivered ? 'delivered' : null,
    pauseMs: isDelivered ? 0 : 5_000,
  };
}

test('the lag of a backlog that waited for its receiver is labelled so, also after the recovery', async () => {
  const telemetry = await testTelemetry();
  const metrics = deliveryMetrics(telemetry.meter);
  const [first, later] = await read(2);
  const [other] = await read(1);
  if (!first || !later || !other) throw new Error('they were read');
  const HOUR_MS = 3_600_000;
  const lags = async (): Promise<string> => {
    const text = await (await fetch(telemetry.metricsUrl)).text();
    const counts = text.matchAll(
      /^webhooks_delivery_lag_seconds_count\{.*receiver="(\w+)".*\} (\d+)$/gm,
    );
    return [...counts].map(([, receiver, count]) => `${receiver} ${count}`).join();
  };
  const arrive = async (due: Due) => {
    metrics.recorded([attemptResult(due, 'delivered')], 0);
    return lags();
  };
  const before = { queuedAtMs: Date.now() - HOUR_MS };
  expect(await arrive({ ...first, ...before, isFailing: true })).toBe('failing 1');
  expect(await arrive({ ...later, ...before })).toBe('failing 2');
  expect(await arrive({ ...later, queuedAtMs: Date.now() + HOUR_MS })).toBe('failing 2,healthy 1');
  expect(await arrive({ ...other, ...before })).toBe('failing 2,healthy 2');
  await telemetry.stop();
});

async function rowsOf(shopId: bigint) {
  const { rows } = await db.pool.query(
    `select (select count(*)::int from queue where shop_id = $1) as queued,
            (select count(*)::int from attempts where shop_id = $1) as attempts,
            (select count(*)::int from deliveries where shop_id = $1 and ended = 'delivered') as delivered,
            (select failures from subscriptions where shop_id = $1) as failures`,
    [shopId],
  );
  return rows[0];
}

/** Whether some session waits for the row of another one. */
const hasLockWaits = async () => (await lockWaits(db.pool)) > 0;

describe('a batch of results', () => {
  test('is recorded once, even if it is repeated because its commit is uncertain', async () => {
    const due = await read(6);
    const batch = due.map((one, nth) => attemptResult(one, nth % 2 ? 'failed' : 'delivered'));
    const expected = { queued: 3, attempts: 6, delivered: 3, failures: 1 };
    for (let time = 0; time < 3; time += 1) {
      expect((await writeResults(db.pool, batch, [], { offsetMs: 0 })).stale).toEqual([]);
      expect(await rowsOf(due[0]?.shopId ?? 0n)).toEqual(expected);
    }
  });

  test('leaves out only the results of a lost lease', async () => {
    const [first, second] = await read(2);
    if (!first || !second) throw new Error('there are two');
    const batch = [attemptResult(first, 'delivered'), attemptResult(second, 'delivered', 1n)];
    const { stale } = await writeResults(db.pool, batch, [], { offsetMs: 0 });
    expect(stale.map(({ due }) => due.id)).toEqual([second.id]);
    expect(await rowsOf(first.shopId)).toMatchObject({ queued: 1, attempts: 1, delivered: 1 });
  });

  test('counts no failure of a lost lease', async () => {
    const [due] = await read(1);
    if (!due) throw new Error('there is one');
    await writeResults(db.pool, [attemptResult(due, 'failed', 1n)], [], { offsetMs: 0 });
    expect(await rowsOf(due.shopId)).toMatchObject({ queued: 1, attempts: 0, failures: 0 });
  });

  test('waits for a takeover in progress, and is rejected', async () => {
    const [due] = await read(1);
    if (!due) throw new Error('there is one');
    const lease = `deliveries/shard/${due.shard}`;
    const written = await inTransaction(db.pool, async (other) => {
      await other.query(`update leases set token = nextval('lease_tokens') where name = $1`, [
        lease,
      ]);
      return {
        done: writeResults(db.pool, [attemptResult(due, 'delivered')], [], { offsetMs: 0 }),
      };
    });
    expect((await written.done).stale).toHaveLength(1);
    expect(await rowsOf(due.shopId)).toMatchObject({ queued: 1, delivered: 0 });
  });

  test('of a delivery that was dropped during its attempt records a success', async () => {
    const [arrived, failed] = await read(2);
    if (!arrived || !failed) throw new Error('there are two');
    await db.pool.query('delete from queue where shop_id = $1', [arrived.shopId]);
    await db.pool.query(
      `update deliveries set ended = 'dropped', finished_at = now() where shop_id = $1`,
      [arrived.shopId],
    );
    await writeResults(
      db.pool,
      [attemptResult(arrived, 'delivered'), attemptResult(failed, 'failed')],
      [],
      {
        offsetMs: 0,
      },
    );
    const { rows } = await db.pool.query<{ id: string; ended: string }>(
      'select id, ended from deliveries where shop_id = $1',
      [arrived.shopId],
    );
    expect(new Map(rows.map((row) => [row.id, row.ended]))).toEqual(
      new Map([
        [arrived.id, 'delivered'],
        [failed.id, 'dropped'],
      ]),
    );
    expect(await rowsOf(arrived.shopId)).toMatchObject({ attempts: 2, queued: 0 });
  });

  test('of a delivery that is dropped at this moment records a success', async () => {
    const [due] = await read(1);
    if (!due) throw new Error('there is one');
    const written = await inTransaction(db.pool, async (other) => {
      await other.query('delete from queue where shop_id = $1', [due.shopId]);
      await other.query(
        `update deliveries set ended = 'dropped', finished_at = now() where shop_id = $1`,
        [due.shopId],
      );
      const done = writeResults(db.pool, [attemptResult(due, 'delivered')], [], { offsetMs: 0 });
      await until(hasLockWaits);
      return { done };
    });
    await written.done;
    expect(await rowsOf(due.shopId)).toMatchObject({ queued: 0, attempts: 1, delivered: 1 });
  });

  test('of a delivery that is started again at this moment keeps it queued', async () => {
    const [due] = await read(1);
    if (!due) throw new Error('there is one');
    const { shopId, id } = due;
    await db.pool.query('delete from queue where shop_id = $1', [shopId]);
    await db.pool.query(
      `update deliveries set ended = 'expired', finished_at = now() where shop_id = $1`,
      [shopId],
    );
    const written = await inTransaction(db.pool, async (other) => {
      expect(await requeue(other, { shopId, ids: [id], offsetMs: 0 })).toEqual([id]);
      const done = writeResults(db.pool, [attemptResult(due, 'delivered')], [], { offsetMs: 0 });
      await until(hasLockWaits);
      return { done };
    });
    await written.done;
    expect(await rowsOf(shopId)).toMatchObject({ queued: 1, delivered: 0 });
  });

  test('of an earlier round keeps a replay queued, whatever its result', async () => {
    const due = await read(3);
    const [repeated, late, lateFailure] = due;
    if (!repeated || !late || !lateFailure) throw new Error('there are three');
    const { shopId } = repeated;
    await writeResults(db.pool, [attemptResult(repeated, 'delivered')], [], { offsetMs: 0 });
    await db.pool.query('delete from queue where shop_id = $1', [shopId]);
    await db.pool.query(
      `update deliveries set ended = 'expired', finished_at = now()
        where shop_id = $1 and ended is null`,
      [shopId],
    );
    const ids = due.map(({ id }) => id);
    const started = await inTransaction(db.pool, (tx) => requeue(tx, { shopId, ids, offsetMs: 0 }));
    expect(started).toHaveLength(3);
    const batch = [
      attemptResult(repeated, 'delivered'),
      attemptResult(late, 'delivered'),
      attemptResult(lateFailure, 'failed'),
    ];
    for (let time = 0; time < 2; time += 1) {
      await writeResults(db.pool, batch, [], { offsetMs: 0 });
      expect(await rowsOf(shopId)).toMatchObject({ queued: 3, attempts: 3, delivered: 0 });
      const { rows } = await db.pool.query(
        `select attempts, round_attempts as round, next_attempt_at <= now() as "isDue", next_attempt_at = scheduled_at as same
           from queue where shop_id = $1`,
        [shopId],
      );
      expect(rows).toEqual(Array(3).fill({ attempts: 1, round: 0, isDue: true, same: true }));
    }
    const again = await readOf(lateFailure, 3);
    await writeResults(
      db.pool,
      again.map((one) => attemptResult(one, 'delivered')),
      [],
      { offsetMs: 0 },
    );
    expect(await rowsOf(shopId)).toMatchObject({ queued: 0, attempts: 6, delivered: 3 });
  });

  test('of a locked subscription is skipped, but the health of its endpoint is recorded', async () => {
    const [due] = await read(1);
    if (!due) throw new Error('there is one');
    const { shopId, endpointId, shard } = due;
    const token = shards.tokenOf(shard) ?? 0n;
    const health = { ...NEW_ENDPOINT, failures: 3, failingSinceMs: Date.now() };
    const change = { shopId, endpointId, shard, token, health };
    const { skipped } = await inTransaction(db.pool, async (other) => {
      await other.query('select from subscriptions where shop_id = $1 for update', [shopId]);
      return writeResults(db.pool, [attemptResult(due, 'failed')], [change], { offsetMs: 0 });
    });
    expect(skipped).toHaveLength(1);
    expect(await rowsOf(shopId)).toMatchObject({ queued: 1, attempts: 0, failures: 0 });
    const { rows } = await db.pool.query(
      'select consecutive_failures as failures from endpoints where shop_id = $1',
      [shopId],
    );
    expect(rows).toEqual([{ failures: 3 }]);
  });

  test('stores no response to a payload that was redacted during the attempt', async () => {
    const [due] = await read(1);
    if (!due) throw new Error('there is one');
    await db.pool.query('update payloads set redacted_at = now() where shop_id = $1', [due.shopId]);
    await writeResults(db.pool, [attemptResult(due, 'failed')], [], { offsetMs: 0 });
    const { rows } = await db.pool.query(
      'select response_excerpt as answer, response_headers as headers from attempts where shop_id = $1',
      [due.shopId],
    );
    expect(rows).toEqual([{ answer: '', headers: '' }]);
  });
});
