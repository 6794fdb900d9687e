import { randomBytes } from 'node:crypto';
import { timestampDate } from '@bufbuild/protobuf/wkt';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import {
  DeliveryState,
  SubscriptionStatus,
} from '../../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { createTestDatabase, type TestDatabase } from '../../../../test/kit/database.ts';
import { lockWaits } from '../../../../test/kit/postgres/lock-waits.ts';
import { actor, newShop, refusal } from '../../../../test/kit/services/running-service.ts';
import { until } from '../../../../test/kit/until.ts';
import { type Receiver, startReceiver } from '../../../../test/kit/webhooks/receiver.ts';
import {
  runWebhooks,
  type WebhooksUnderTest,
} from '../../../../test/kit/webhooks/running-webhooks.ts';
import { newSubscription } from '../../../../test/kit/webhooks/subscription.ts';
import { sampleEvent } from '../../../contract/sample-event.ts';
import { newestActive } from '../../../contract/versions.ts';
import { inTransaction } from '../../../platform/postgres/postgres.ts';
import { payloadIdOf } from '../../delivery-id.ts';
import { deliveriesOf, fanOut, lockQueues } from '../../fan-out/fan-out.ts';
import { eventKeyOf } from '../../fan-out/insert.ts';
import { DELIVERY_SHARDS } from './queue-ref.ts';
import { readDue } from './read-due.ts';
import { retryWaiting } from './retry-waiting.ts';
import { findTargets } from './targets.ts';

describe('retry waiting', () => {
  let webhooks: WebhooksUnderTest;

  beforeAll(async () => {
    // A delivery waits for its response while the test looks elsewhere.
    webhooks = await runWebhooks({ attemptMs: 600_000 });
  });
  afterAll(() => webhooks.stop());

  const fails: Receiver['answer'] = (response) => void response.writeHead(500).end();
  const accepts: Receiver['answer'] = (response) => void response.writeHead(200).end();

  interface Waiting {
    readonly receiver: Receiver;
    readonly shopId: bigint;
    readonly subscriptionId: bigint;
    retry(idempotencyKey?: string): Promise<{ count: number; more: boolean }>;
  }

  const publish = (shopId: bigint, count: number) =>
    webhooks.publish(...Array.from({ length: count }, () => sampleEvent('return.closed', shopId)));

  const attemptCounts = async (shopId: bigint) =>
    (await webhooks.deliveries(shopId)).map(({ attempts }) => attempts.length);

  const areDelivered = async (shopId: bigint) =>
    (await webhooks.deliveries(shopId)).every(({ state }) => state === DeliveryState.DELIVERED);

  /** The rows of the queue: whether each is due, its attempts, and its pause in seconds. */
  async function queueOf(shopId: bigint) {
    const { rows } = await webhooks.db.pool.query<{
      attempts: number;
      round: number;
      pause: number;
    }>(
      `select attempts, round_attempts as round,
            extract(epoch from next_attempt_at - scheduled_at)::float8 as pause
       from queue where shop_id = $1`,
      [shopId],
    );
    return rows;
  }

  async function isPaused(shopId: bigint): Promise<boolean> {
    const { rows } = await webhooks.db.pool.query(
      'select from endpoints where shop_id = $1 and circuit_opened_at is not null',
      [shopId],
    );
    return rows.length > 0;
  }

  const HOW_MANY_OPEN = 5;

  /** An address whose circuit is open, with deliveries that wait. */
  async function paused(): Promise<Waiting> {
    const down = await newReceiver();
    await publish(down.shopId, HOW_MANY_OPEN);
    await until(async () => (await queueOf(down.shopId)).every(({ attempts }) => attempts === 1));
    // The circuit opens only after five seconds of failures.
    webhooks.advance(6);
    await until(() => isPaused(down.shopId));
    // The last results are recorded.
    await until(async () => (await queueOf(down.shopId)).every(({ attempts }) => attempts === 2));
    return down;
  }

  /** Deliveries of a failing address. Each has three attempts, and waits five minutes for the next. */
  async function waiting(count: number): Promise<Waiting> {
    const failing = await newReceiver();
    const { shopId } = failing;
    await publish(shopId, count);
    for (const [attempts, seconds] of [
      [1, 7],
      [2, 40],
      [3, 0],
    ] as const) {
      await until(async () => (await attemptCounts(shopId)).every((n) => n === attempts));
      webhooks.advance(seconds);
    }
    return failing;
  }

  /** A receiver that fails, with a subscription. */
  async function newReceiver(): Promise<Waiting> {
    const receiver = await startReceiver();
    receiver.answer = fails;
    const shopId = newShop();
    const { id: subscriptionId } = await webhooks.subscribe({ shopId, url: receiver.url });
    const retry = (idempotencyKey = '') =>
      webhooks.client.retryDeliveries({ shopId, actor, subscriptionId, idempotencyKey });
    return { receiver, shopId, subscriptionId, retry };
  }

  describe('deliveries that wait for a later attempt', () => {
    test('are sent now, to the new address, each once', async () => {
      const { receiver, shopId, subscriptionId, retry } = await waiting(2);
      const repaired = await startReceiver();
      await webhooks.client.updateSubscription({
        shopId,
        actor,
        subscriptionId,
        url: repaired.url,
      });

      expect(await retry()).toMatchObject({ count: 2, more: false });
      await until(() => areDelivered(shopId));
      expect(repaired.received).toHaveLength(2);
      expect(new Set(repaired.received.map(({ headers }) => headers['webhook-id'])).size).toBe(2);
      expect(await attemptCounts(shopId)).toEqual([4, 4]);
      await Promise.all([receiver.stop(), repaired.stop()]);
    });

    test('keep their schedule when they fail again', async () => {
      const { receiver, shopId, retry } = await waiting(1);
      for (const attempts of [4, 5]) {
        expect(await retry()).toMatchObject({ count: 1 });
        await until(async () => (await attemptCounts(shopId))[0] === attempts);
        const [row] = await queueOf(shopId);
        expect(row).toMatchObject({ attempts, round: 3 });
        expect(row?.pause).toBeGreaterThanOrEqual(300);
      }
      await receiver.stop();
    });

    test('have the time of their next attempt in the backlog', async () => {
      const { receiver, shopId, subscriptionId, retry } = await waiting(2);
      const nextAttempt = async () => {
        const call = { shopId, actor, subscriptionId, includeBacklog: true };
        const { subscription } = await webhooks.client.getSubscription(call);
        const at = subscription?.backlog?.nextAttemptAt;
        return at && timestampDate(at).getTime();
      };
      const all = (await webhooks.deliveries(shopId)).flatMap(({ nextAttemptAt: at }) =>
        at ? [timestampDate(at).getTime()] : [],
      );
      expect(all).toHaveLength(2);
      expect(await nextAttempt()).toBe(Math.min(...all));

      receiver.answer = accepts;
      await retry();
      await until(() => areDelivered(shopId));
      expect(await nextAttempt()).toBeUndefined();
      await receiver.stop();
    });

    test('are made due in batches', async () => {
      const shopId = newShop();
      const { id: subscriptionId } = await webhooks.subscribe({
        shopId,
        url: 'http://127.0.0.1:1/',
      });
      await webhooks.db.pool.query(
        `insert into queue (shop_id, subscription_id, id, payload_id, bytes, is_retry, next_attempt_at, queued_at, scheduled_at)
       select $1, $2, gen_random_uuid(), gen_random_uuid(), 1, true, now() + interval '1 year', now(), now() - interval '1 hour'
         from generate_series(1, 2500)`,
        [shopId, subscriptionId],
      );
      const call = { shopId, actor, subscriptionId };
      expect(await webhooks.client.retryDeliveries(call)).toMatchObject({
        count: 2_500,
        more: false,
      });
      expect(await webhooks.client.retryDeliveries(call)).toMatchObject({ count: 0 });
    });
  });

  describe('an address whose circuit is open', () => {
    test('gets one delivery first, and the others when it succeeds', async () => {
      const { receiver, shopId, retry } = await paused();
      const before = receiver.received.length;
      const probe = Promise.withResolvers<void>();
      receiver.answer = async (response) => {
        await probe.promise;
        response.writeHead(200).end();
      };
      expect(await retry()).toMatchObject({ count: HOW_MANY_OPEN });
      await until(() => receiver.received.length === before + 1);
      // The scheduler goes on, as an event for another address shows.
      const other = await startReceiver();
      const otherShop = newShop();
      await webhooks.subscribe({ shopId: otherShop, url: other.url });
      await publish(otherShop, 1);
      await until(() => other.received.length === 1);
      expect(receiver.received).toHaveLength(before + 1);

      probe.resolve();
      await until(() => areDelivered(shopId));
      expect(receiver.received).toHaveLength(before + HOW_MANY_OPEN);
      expect(await isPaused(shopId)).toBe(false);
      await Promise.all([receiver.stop(), other.stop()]);
    });

    test('stays paused when that delivery fails', async () => {
      const { receiver, shopId, retry } = await paused();
      const before = receiver.received.length;
      await retry();
      await until(() => receiver.received.length > before);
      expect(await isPaused(shopId)).toBe(true);
      await receiver.stop();
    });
  });

  describe('beside the scheduler', () => {
    test('a delivery in flight is not sent a second time', async () => {
      const receiver = await startReceiver();
      const answer = Promise.withResolvers<void>();
      receiver.answer = async (response) => {
        await answer.promise;
        response.writeHead(200).end();
      };
      const shopId = newShop();
      const { id: subscriptionId } = await webhooks.subscribe({ shopId, url: receiver.url });
      await publish(shopId, 2);
      await until(() => receiver.received.length === 2);
      const call = { shopId, actor, subscriptionId };
      const retries = Array.from({ length: 10 }, () => webhooks.client.retryDeliveries(call));
      for (const retried of await Promise.all(retries)) expect(retried.count).toBe(0);
      answer.resolve();
      await until(() => areDelivered(shopId));
      expect(receiver.received).toHaveLength(2);
      await receiver.stop();
    });

    test('no delivery is open twice or sent after its success, whenever the calls come', async () => {
      const receiver = await startReceiver();
      const open = new Set<string>();
      const succeeded = new Set<string>();
      const faults: string[] = [];
      receiver.answer = async (response, { headers }, nth) => {
        const id = String(headers['webhook-id']);
        if (open.has(id) || succeeded.has(id)) faults.push(id);
        open.add(id);
        await new Promise(setImmediate);
        open.delete(id);
        const isSuccess = nth % 3 !== 0;
        if (isSuccess) succeeded.add(id);
        response.writeHead(isSuccess ? 200 : 500).end();
      };
      const shopId = newShop();
      const { id: subscriptionId } = await webhooks.subscribe({ shopId, url: receiver.url });
      const call = { shopId, actor, subscriptionId };
      for (let n = 0; n < 20; n += 1) {
        await Promise.all([
          publish(shopId, 3),
          webhooks.client.retryDeliveries(call),
          webhooks.client.retryDeliveries(call),
        ]);
      }
      await until(async () => {
        await webhooks.client.retryDeliveries(call);
        return areDelivered(shopId);
      });
      expect(faults).toEqual([]);
      expect(succeeded.size).toBe(60);
      await receiver.stop();
    });
  });

  describe('a call', () => {
    test('that finds nothing has no effect, with a key, too', async () => {
      const { receiver, retry } = await newReceiver();
      expect(await retry('k')).toMatchObject({ count: 0, more: false });
      expect(await retry('k')).toMatchObject({ count: 0, more: false });
      await receiver.stop();
    });

    test('has an effect once per key, also in a race', async () => {
      const { receiver, shopId, retry } = await waiting(2);
      const both = await Promise.all([retry('k'), retry('k')]);
      expect(both[0]).toEqual(both[1]);
      await until(async () => (await attemptCounts(shopId)).every((count) => count === 4));
      expect(await retry('k')).toEqual(both[0]);
      expect((await queueOf(shopId)).every(({ pause }) => pause > 0)).toBe(true);
      await receiver.stop();
    });

    test('is rejected for an inactive subscription, and for one that the shop does not have', async () => {
      const { receiver, shopId, subscriptionId, retry } = await waiting(1);
      const call = { shopId, actor, subscriptionId };
      expect(
        await refusal(webhooks.client.retryDeliveries({ ...call, shopId: newShop() })),
      ).toMatchObject({ reason: 'SUBSCRIPTION_NOT_FOUND' });
      await webhooks.client.updateSubscription({ ...call, status: SubscriptionStatus.INACTIVE });
      expect(await refusal(retry())).toMatchObject({ reason: 'STATE_FORBIDS' });
      expect((await queueOf(shopId)).every(({ pause }) => pause > 0)).toBe(true);
      await receiver.stop();
    });
  });
});

describe('a call with a key', () => {
  let db: TestDatabase;
  beforeAll(async () => {
    db = await createTestDatabase('webhooks');
  });
  afterAll(() => db.drop());

  /** As if the attempts failed that are due. */
  const failDue = (shopId: bigint) =>
    db.pool.query(
      `update queue set next_attempt_at = now() + interval '1 hour', scheduled_at = now()
      where shop_id = $1 and next_attempt_at <= now()`,
      [shopId],
    );

  test('a call has no second effect while an earlier call with its key has not ended', async () => {
    const shopId = newShop();
    const subscriptionId = await newSubscription(db.pool, shopId);
    await db.pool.query(
      `insert into queue (shop_id, subscription_id, id, payload_id, bytes, is_retry, next_attempt_at, queued_at,
                        scheduled_at, round_attempts)
     select $1, $2, gen_random_uuid(), gen_random_uuid(), 1, true, now() + interval '1 hour', now(), now(), 3
       from generate_series(1, 2)`,
      [shopId, subscriptionId],
    );
    const use = { shopId, operation: 'retry', key: 'k', hash: randomBytes(32) };
    const retry = () => retryWaiting(db.pool, { shopId, subscriptionId }, { offsetMs: 0, use });
    const calls = await inTransaction(db.pool, async (tx) => {
      // Nobody can claim a key.
      await tx.query('lock table idempotency_keys in share mode');
      const first = retry();
      await until(async () => (await lockWaits(db.pool)) === 1);
      await failDue(shopId);
      const second = retry();
      await until(async () => (await lockWaits(db.pool)) === 2);
      return [first, second];
    });
    const result = { count: 2, isMore: false };
    expect(await Promise.all(calls)).toEqual([result, result]);
    await failDue(shopId);
    expect(await retry()).toEqual(result);
    // Each effect takes one attempt off.
    const { rows } = await db.pool.query(
      'select round_attempts as round from queue where shop_id = $1',
      [shopId],
    );
    expect(rows).toEqual([{ round: 2 }, { round: 2 }]);
  });
});

describe('targets', () => {
  let webhooks: WebhooksUnderTest;

  beforeAll(async () => {
    // It does not send, so deliveries of the tests stay queued.
    webhooks = await runWebhooks({ WEBHOOK_CONCURRENCY: 0 });
  });
  afterAll(() => webhooks.stop());

  const URL = 'https://example.com/hooks';
  const TRIGGER = 'return.closed';
  const SHARDS = Array.from({ length: DELIVERY_SHARDS }, (_, shard) => shard);

  async function subscribed() {
    const shopId = newShop();
    const { id: subscriptionId } = await webhooks.subscribe({ shopId, url: URL });
    return { shopId, subscriptionId };
  }

  const targetsOf = (shopId: bigint, shards = SHARDS) =>
    findTargets(webhooks.db.pool, [{ shopId, trigger: TRIGGER }], shards);

  const queue = (o: { shopId: bigint; subscriptionId: bigint }, isRetry: boolean) =>
    webhooks.db.pool.query(
      `insert into queue (shop_id, subscription_id, id, payload_id, bytes, is_retry, next_attempt_at, queued_at)
     values ($1, $2, gen_random_uuid(), gen_random_uuid(), 1, $3, now() + interval '1 hour', now())`,
      [o.shopId, o.subscriptionId, isRetry],
    );

  test('a delivery from memory equals a delivery read from the table', async () => {
    const { shopId, subscriptionId } = await subscribed();
    await webhooks.client.rotateSecret({ shopId, actor, subscriptionId });
    const event = { ...sampleEvent(TRIGGER, shopId), traceparent: 'of its cause', revision: 7n };
    const { fresh } = await inTransaction(webhooks.db.pool, async (tx) => {
      const queues = await lockQueues(tx, [event]);
      const targets = await findTargets(tx, [event], SHARDS);
      const deliveries = deliveriesOf([event], queues, new Date());
      return fanOut(tx, deliveries, { offsetMs: 3_600_000, targets });
    });
    const [{ target, deliveries } = { target: undefined, deliveries: [] }] = fresh;
    expect(target).toMatchObject({ shopId, subscriptionId, wasEmpty: true });
    const { endpointId = 0n } = target ?? {};
    const all = { all: 10, trusted: 1e9, new: 1e9, slow: 1e9, failing: 1e9 };
    const read = await readDue(
      webhooks.db.pool,
      [
        {
          shopId,
          subscriptionId,
          endpointId,
          limit: 10,
          mode: 'all',
          healthClass: 'new',
          freshFromMs: 0,
          retriesFromMs: 0,
        },
      ],
      { except: [], maxBytes: all, offsetMs: 3_600_000 },
    );
    expect(read).toHaveLength(1);
    expect(read[0]?.encryptedSecrets).toContain(',');
    expect(deliveries).toEqual(read);
  });

  test('a body that was stored before is read, because another release may have shaped and sent it', async () => {
    const { shopId } = await subscribed();
    const event = sampleEvent(TRIGGER, shopId);
    const today = new Date();
    const id = payloadIdOf(eventKeyOf(event), 'return', newestActive(today));
    await webhooks.db.pool.query(
      `insert into payloads (shop_id, id, event_id, trigger, topic, api_version, body)
     values ($1, $2, $3, $4, 'return', $5, 'sent before')`,
      [shopId, id, event.eventId, TRIGGER, newestActive(today)],
    );
    const { written, fresh } = await inTransaction(webhooks.db.pool, async (tx) => {
      const queues = await lockQueues(tx, [event]);
      const targets = await findTargets(tx, [event], SHARDS);
      return fanOut(tx, deliveriesOf([event], queues, today), { offsetMs: 0, targets });
    });
    expect({ written, fresh }).toEqual({ written: 1, fresh: [] });
  });

  describe('deliveries are sent from memory', () => {
    test('when their queue is empty, or contains only fresh ones', async () => {
      const of = await subscribed();
      expect(await targetsOf(of.shopId)).toMatchObject([{ ...of, url: URL, wasEmpty: true }]);
      await queue(of, false);
      expect(await targetsOf(of.shopId)).toMatchObject([of]);
    });

    test('not while a retry waits, because only the table knows when it is due', async () => {
      const of = await subscribed();
      await queue(of, true);
      expect(await targetsOf(of.shopId)).toEqual([]);
    });

    test('not when another process sends for the endpoint', async () => {
      const { shopId } = await subscribed();
      const [target] = await targetsOf(shopId);
      const others = SHARDS.filter((shard) => shard !== target?.shard);
      expect(await targetsOf(shopId, others)).toEqual([]);
      expect(await targetsOf(shopId, [])).toEqual([]);
    });

    test.each(['is_open = false', 'expire_before = now()'])(
      'not when the queue has %s',
      async (set) => {
        const { shopId } = await subscribed();
        await webhooks.db.pool.query(`update subscription_queues set ${set} where shop_id = $1`, [
          shopId,
        ]);
        expect(await targetsOf(shopId)).toEqual([]);
      },
    );
  });
});
