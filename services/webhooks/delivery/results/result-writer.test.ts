import {
  afterAll,
  afterEach,
  beforeAll,
  beforeEach,
  describe,
  expect,
  jest,
  test,
} from '@jest/globals';
import fc from 'fast-check';
import pg from 'pg';
import { DeliveryState } from '../../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { createTestDatabase, type TestDatabase } from '../../../../test/kit/database.ts';
import { newShop } from '../../../../test/kit/services/running-service.ts';
import { silentLogger } from '../../../../test/kit/services/telemetry.ts';
import { until } from '../../../../test/kit/until.ts';
import { type Receiver, startReceiver } from '../../../../test/kit/webhooks/receiver.ts';
import {
  runWebhooks,
  type WebhooksUnderTest,
} from '../../../../test/kit/webhooks/running-webhooks.ts';
import { sampleEvent } from '../../../contract/sample-event.ts';
import { shardLease } from '../../../platform/leases/shard-leases.ts';
import { openSecondPool } from '../../../platform/postgres/postgres.ts';
import { NO_TIMING, type SendResult } from '../../sender/send-result.ts';
import { DISPATCHER_POOL } from '../../start.ts';
import { createHealthChanges } from '../endpoint/health-changes.ts';
import { DELIVERY_LEASES, leaseOf } from '../queue/queue-ref.ts';
import { type Due, readDue } from '../queue/read-due.ts';
import type { AttemptResult } from './attempt-result.ts';
import { actionOnFailing } from './deactivate.ts';
import { ResultWriter } from './result-writer.ts';
import { writeResults } from './write-results.ts';

describe('result writer', () => {
  afterEach(() => void jest.useRealTimers());

  function resultOf(nth: number): AttemptResult {
    const id = `018f0000-0000-7000-8000-${String(nth).padStart(12, '0')}`;
    const due: Due = {
      id,
      shopId: 1n,
      subscriptionId: BigInt(nth),
      endpointId: 1n,
      shard: 1,
      url: 'https://a.example/',
      payloadId: id,
      eventId: id,
      trigger: 'return.closed',
      apiVersion: '2026-10',
      revision: 1n,
      traceparent: '',
      attempts: 0,
      roundAttempts: 0,
      bytes: 2,
      dueAtMs: 0,
      queuedAtMs: 0,
      round: '',
      isRetry: false,
      encryptedSecrets: null,
      isSandbox: false,
      isTest: false,
      isFailing: false,
      body: null,
    };
    return { due, token: 1n, sent: undefined, ended: 'dropped', pauseMs: 0 };
  }

  test('when the database rejects results in a row, only samples are retried, and all are recorded soon after', async () => {
    jest.useFakeTimers({ doNotFake: ['queueMicrotask'] });
    let isRefused = true;
    let statements = 0;
    const recorded = new Set<string>();
    const pool = {
      query: async () => {
        statements += 1;
        if (isRefused) throw new Error('refused for a reason that is no outage');
        return { rows: [{ name: leaseOf({ shard: 1 }), token: 1n }] };
      },
    };
    const writer = new ResultWriter({
      // Only this part is used for such results.
      pool: pool as unknown as pg.Pool,
      logger: silentLogger(),
      offsetMs: () => 0,
      healthChanges: createHealthChanges(),
      onRecorded: (batch) => {
        for (const { due } of batch) recorded.add(due.id);
      },
    });
    for (let nth = 0; nth < 200; nth += 1) writer.add(resultOf(nth));
    await jest.advanceTimersByTimeAsync(500);
    // All together, then five one by one.
    expect(statements).toBe(6);
    await jest.advanceTimersByTimeAsync(580_000);
    expect(recorded.size).toBe(0);
    expect(writer.oldestMs()).toBeGreaterThan(580_000);

    isRefused = false;
    await jest.advanceTimersByTimeAsync(5_000);
    expect(recorded.size).toBe(200);
    expect(writer.oldestMs()).toBe(0);
  });

  test('results are written again until an outage of the database is over', async () => {
    let isAway = true;
    let statements = 0;
    const recorded: string[] = [];
    const pool = {
      query: async () => {
        statements += 1;
        if (isAway) throw Object.assign(new Error('connection refused'), { code: 'ECONNREFUSED' });
        return { rows: [{ name: leaseOf({ shard: 1 }), token: 1n }] };
      },
    };
    const writer = new ResultWriter({
      pool: pool as unknown as pg.Pool,
      logger: silentLogger(),
      offsetMs: () => 0,
      healthChanges: createHealthChanges(),
      onRecorded: (batch) => recorded.push(...batch.map(({ due }) => due.id)),
    });
    const result = resultOf(1);
    writer.add(result);
    await until(() => statements >= 3);
    expect(recorded).toEqual([]);
    isAway = false;
    await until(() => recorded.length > 0);
    expect(recorded).toEqual([result.due.id]);
  });
});

describe('the work of sending and recording', () => {
  const SHARD = 1;
  const TOKEN = 1n;

  let db: TestDatabase;
  let migrator: pg.Client;
  /** One connection, so that its plans date from when few deliveries waited. */
  let pool: pg.Pool;

  beforeAll(async () => {
    db = await createTestDatabase('webhooks');
    migrator = new pg.Client({ connectionString: db.migratorUrl });
    await migrator.connect();
    // Without autovacuum the statistics stay as they are, so the plans do not change during the test.
    await migrator.query('alter table webhooks.queue set (autovacuum_enabled = off)');
    pool = openSecondPool(db.pool, { ...DISPATCHER_POOL, max: 1 });
    await db.pool.query(
      `insert into leases (name, owner, token, expires_at) values ($1, 'test', $2, now() + interval '1 hour')`,
      [shardLease(DELIVERY_LEASES, SHARD), TOKEN],
    );
  });
  afterAll(async () => {
    await pool.end();
    await migrator.end();
    await db.drop();
  });

  /** A shop with one queue. */
  async function addShop(shopId: bigint): Promise<void> {
    await db.pool.query(
      `with e as (
       insert into endpoints (shop_id, id, url, url_sha256) overriding system value
       values ($1, 1, 'https://a.example/', sha256('a'))
     ), s as (
       insert into subscriptions (shop_id, id, topic, trigger, endpoint_id, status) overriding system value
       values ($1, 1, 'return', 'return.closed', 1, 'active')
     ), c as (
       insert into secrets (shop_id, subscription_id, key_id, sealed) values ($1, 1, 'k', 'sealed')
     )
     insert into subscription_queues (shop_id, subscription_id, endpoint_id, topic, trigger, shard, is_open)
     values ($1, 1, 1, 'return', 'return.closed', $2, true)`,
      [shopId, SHARD],
    );
  }

  /** Due deliveries of its queue, with ids of one day. */
  async function addDeliveries(shopId: bigint, count: number): Promise<void> {
    await db.pool.query(
      `with given as (
       select (lpad(to_hex((extract(epoch from now()) * 1000)::bigint), 12, '0')
                || substr(md5(random()::text), 1, 20))::uuid as id
         from generate_series(1, $2)
     ), bodies as (
       insert into payloads (shop_id, id, event_id, trigger, topic, api_version, body)
       select $1, id, id, 'return.closed', 'return', '2026-10', '{}' from given
     )
     insert into queue (shop_id, subscription_id, id, payload_id, bytes, next_attempt_at, queued_at)
     select $1, 1, id, id, 2, now(), now() from given`,
      [shopId, count],
    );
  }

  const DELIVERED: SendResult = {
    kind: 'delivered',
    startedAt: new Date(),
    durationMs: 1,
    timing: NO_TIMING,
    status: 200,
    error: '',
    excerpt: '',
    headers: '',
    retryAfterMs: undefined,
  };

  /** Half of the deliveries succeed, the rest is retried. Returns their number. */
  async function sendAndSettle(shopId: bigint, limit: number): Promise<number> {
    const queue = { shopId, subscriptionId: 1n, endpointId: 1n, freshFromMs: 0, retriesFromMs: 0 };
    const due = await readDue(pool, [{ ...queue, mode: 'all', healthClass: 'trusted', limit }], {
      except: [],
      maxBytes: { trusted: 1e9, new: 0, slow: 0, failing: 0 },
      offsetMs: 0,
    });
    const attemptResults = due.map((one, nth): AttemptResult => {
      const common = { due: one, token: TOKEN };
      if (nth % 2 === 0) {
        const sent = { result: DELIVERED, headers: '{}' };
        return { ...common, sent, ended: 'delivered', pauseMs: 0 };
      }
      const result: SendResult = { ...DELIVERED, kind: 'failed', status: 500 };
      return { ...common, sent: { result, headers: '{}' }, ended: null, pauseMs: 60_000 };
    });
    const { stale } = await writeResults(pool, attemptResults, [], { offsetMs: 0 });
    expect(stale).toEqual([]);
    return due.length;
  }

  /** Blocks of the queue, the bodies and their indexes read so far, by any session. */
  async function blocksRead(): Promise<number> {
    await pool.query('select pg_stat_force_next_flush()');
    const { rows } = await pool.query<{ blocks: number }>(
      `select sum(heap_blks_read + heap_blks_hit + idx_blks_read + idx_blks_hit)::float8 as blocks
       from pg_statio_user_tables where relname = 'queue' or relname like 'payloads%'`,
    );
    return rows[0]?.blocks ?? Number.NaN;
  }

  test.each([1, 3])('stays small when a queue of %i grows suddenly', async (before) => {
    const shopId = BigInt(before);
    await addShop(shopId);
    await db.pool.query('delete from queue');
    await addDeliveries(shopId, before);
    await migrator.query('vacuum analyze');
    // Warm up the plans.
    expect(await sendAndSettle(shopId, before)).toBe(before);
    await addDeliveries(shopId, 30_000);
    const from = await blocksRead();
    expect(await sendAndSettle(shopId, 8)).toBe(8);
    expect((await blocksRead()) - from).toBeLessThan(400);
  });
});

describe('late responses', () => {
  /** Short, because each test waits for it, and long enough for the second attempt, which gets a response. */
  const ATTEMPT_MS = 4_000;

  let webhooks: WebhooksUnderTest;
  let receiver: Receiver;

  beforeAll(async () => {
    webhooks = await runWebhooks({ attemptMs: ATTEMPT_MS });
  });
  afterAll(() => webhooks.stop());
  beforeEach(async () => {
    receiver = await startReceiver();
  });
  afterEach(() => receiver.stop());

  /** One event to one subscription of a new shop. */
  async function deliverOne(): Promise<bigint> {
    const shopId = newShop();
    await webhooks.subscribe({ shopId, url: receiver.url });
    await webhooks.publish(sampleEvent('return.closed', shopId));
    return shopId;
  }

  /** The shop's only delivery, after this many attempts. */
  function written(shopId: bigint, attempts: number) {
    return until(async () => {
      const [delivery] = await webhooks.deliveries(shopId);
      return delivery?.attempts.length === attempts && delivery;
    });
  }

  test('an attempt without a response in time fails, and halves the limit in flight of its endpoint', async () => {
    receiver.answer = () => {};
    const shopId = await deliverOne();
    const { attempts } = await written(shopId, 1);
    expect(attempts[0]).toMatchObject({
      status: 0,
      error: `no complete answer within ${ATTEMPT_MS} ms`,
    });
    const cap = async () => {
      const { rows } = await webhooks.db.pool.query<{ flight_cap: number }>(
        'select flight_cap from endpoints where shop_id = $1',
        [shopId],
      );
      return rows[0]?.flight_cap;
    };
    await until(async () => (await cap()) === 1);
    receiver.answer = (response) => void response.end();
    webhooks.advance(6);
    await written(shopId, 2);
    await until(async () => (await cap()) === 2);
  });

  test('an attempt with an endless slow response fails; an endless fast response ends at our limit', async () => {
    receiver.answer = (response) => {
      const dripping = setInterval(() => response.write('.'), 20);
      response.once('close', () => clearInterval(dripping));
    };
    const shopId = await deliverOne();
    expect((await written(shopId, 1)).attempts[0]?.error).toContain('no complete answer');

    receiver.answer = (response) => {
      const flood = (): void => {
        while (!response.destroyed && response.write('x'.repeat(16_384)));
      };
      response.on('drain', flood);
      flood();
    };
    webhooks.advance(6);
    const delivered = await written(shopId, 2);
    expect(delivered.state).toBe(DeliveryState.DELIVERED);
    expect(delivered.attempts[1]?.responseExcerpt).toBe('x'.repeat(1024));
  });
});

const DAY_MS = 24 * 3_600_000;
const cases = fc.record({
  failures: fc.integer({ min: 0, max: 40 }),
  share: fc.double({ min: 0, max: 1.5, noNaN: true }),
  warnedPercent: fc.constantFrom(0, 50, 70, 90),
});

function judge({
  failures,
  share,
  warnedPercent,
}: {
  failures: number;
  share: number;
  warnedPercent: number;
}) {
  return actionOnFailing({ failures, failingSinceMs: 0, warnedPercent }, share * 5 * DAY_MS);
}

describe('a subscription with only failures', () => {
  test('becomes inactive after five days with at least ten failures, never before', () => {
    fc.assert(
      fc.property(cases, (one) => {
        expect(judge(one).kind === 'deactivate').toBe(one.failures >= 10 && one.share >= 1);
      }),
    );
  });

  test.each([
    [0.999, 10, 'warn'],
    [1, 9, 'none'],
    [1, 10, 'deactivate'],
  ])('after %d of the five days, with %d failures: %s', (share, failures, kind) => {
    expect(judge({ failures, share, warnedPercent: 0 }).kind).toBe(kind);
  });

  test('gets one warning each at 50, 70 and 90 % of the time', () => {
    fc.assert(
      fc.property(cases, (one) => {
        const action = judge(one);
        const due = [90, 70, 50].find((percent) => one.share * 100 >= percent) ?? 0;
        const isWarned = one.failures >= 10 && one.share < 1 && due > one.warnedPercent;
        expect(action.kind === 'warn' ? action.percent : 0).toBe(isWarned ? due : 0);
      }),
    );
  });

  test('gets all three warnings, whenever it is checked', () => {
    fc.assert(
      fc.property(
        fc.array(fc.double({ min: 0, max: 0.99, noNaN: true }), { maxLength: 50 }),
        (shares) => {
          let warnedPercent = 0;
          const sent: number[] = [];
          for (const share of shares.toSorted((a, b) => a - b)) {
            const action = judge({ failures: 10, share, warnedPercent });
            if (action.kind !== 'warn') continue;
            warnedPercent = action.percent;
            sent.push(action.percent);
          }
          expect(sent).toEqual(sent.toSorted((a, b) => a - b));
          expect(new Set(sent).size).toBe(sent.length);
        },
      ),
    );
  });
});
