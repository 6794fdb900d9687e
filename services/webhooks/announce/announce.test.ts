import { timestampDate } from '@bufbuild/protobuf/wkt';
import { Code } from '@connectrpc/connect';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import {
  type Event,
  SubscriptionDisabled_Reason as Reason,
} from '../../../proto/gen/rms/events/v1/events_pb.ts';
import { SubscriptionStatus } from '../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { actor, newShop, refusal } from '../../../test/kit/services/running-service.ts';
import { until } from '../../../test/kit/until.ts';
import { type Receiver, startReceiver } from '../../../test/kit/webhooks/receiver.ts';
import {
  runWebhooks,
  type WebhooksUnderTest,
} from '../../../test/kit/webhooks/running-webhooks.ts';
import { sampleEvent } from '../../contract/sample-event.ts';
import { eventsTopic } from '../../platform/bus/event-bus.ts';
import { parseEvent } from '../../platform/outbox/parse.ts';
import { inTransaction } from '../../platform/postgres/postgres.ts';
import { countExhausted, publishDueCounts } from '../announce.ts';

let webhooks: WebhooksUnderTest;
let receiver: Receiver;
/** Events of this service that the bus delivered. */
const published: Event[] = [];

beforeAll(async () => {
  webhooks = await runWebhooks();
  await webhooks.bus.subscribe({
    group: 'test',
    topics: [eventsTopic('webhooks')],
    handle: async (records) =>
      void published.push(...records.map(({ value }) => parseEvent(value))),
  });
});
afterAll(() => webhooks.stop());
beforeEach(async () => {
  receiver = await startReceiver();
  receiver.answer = (response) => void response.writeHead(500).end();
});
afterEach(() => receiver.stop());

const DAY = 24 * 3_600;

/** A subscription whose first delivery failed once, and that has `failures` failures in all. */
async function failing(failures = 9) {
  const shopId = newShop();
  const { id } = await webhooks.subscribe({ shopId, url: `${receiver.url}?token=sesame` });
  await webhooks.publish(sampleEvent('return.closed', shopId));
  await attempts(shopId, 1);
  await webhooks.db.pool.query('update subscriptions set failures = $2 where shop_id = $1', [
    shopId,
    failures,
  ]);
  const host = new URL(receiver.url).host;
  const about = { id, host, topic: 'return', trigger: 'return.closed' };
  return { shopId, id, about };
}

/** The shop's only delivery, after this many attempts. */
function attempts(shopId: bigint, count: number) {
  return until(async () => {
    const [delivery] = await webhooks.deliveries(shopId);
    return delivery?.attempts.length === count && delivery;
  });
}

/** The triggers of a shop's events. */
const triggersOf = async (shopId: bigint) =>
  (await webhooks.events(shopId)).map(({ trigger }) => trigger);

describe('a subscription with only failures', () => {
  test('is published at 50, 70 and 90 percent of the five days, and when it becomes inactive', async () => {
    const { shopId, about } = await failing();
    for (const [count, days] of [2.5, 1, 1, 0.6].entries()) {
      webhooks.advance(days * DAY);
      await attempts(shopId, count + 2);
    }
    const events = await webhooks.events(shopId);
    expect(events.map(({ trigger, detail }) => ({ trigger, detail: detail.value }))).toMatchObject([
      ...[50, 70, 90].map((percent) => ({
        trigger: 'subscription.failing',
        detail: { subscription: about, percent, lastError: 'answered 500' },
      })),
      {
        trigger: 'subscription.disabled',
        detail: { subscription: about, reason: Reason.FAILURES, lastError: 'answered 500' },
      },
    ]);
    const first = events[0]?.detail;
    if (first?.case !== 'subscriptionFailing') throw new Error('the event has another detail');
    const { failingSince, disablesAt } = first.value;
    const [since = 0, until_ = 0] = [failingSince, disablesAt].map(
      (at) => at && timestampDate(at).getTime(),
    );
    expect(until_ - since).toBe(5 * DAY * 1_000);
    expect(first.value.failures).toBe(10);
    // Published by the relay of this service.
    await until(() => published.filter((one) => one.shopId === shopId).length === 4);
  });

  test('is published with the reason when the receiver answered 410', async () => {
    receiver.answer = (response) => void response.writeHead(410).end();
    const { shopId, about } = await failing();
    const [event] = await webhooks.events(shopId);
    expect(event).toMatchObject({
      trigger: 'subscription.disabled',
      actor: { id: 'webhooks' },
      detail: { value: { subscription: about, reason: Reason.GONE, failures: 1 } },
    });
  });

  test('does not publish its address, whose path or query may be a secret', async () => {
    receiver.answer = (response) => void response.writeHead(410, 'sesame').end('sesame');
    const { shopId } = await failing();
    const { rows } = await webhooks.db.pool.query<{ value: Buffer }>(
      'select value from events where shop_id = $1',
      [shopId],
    );
    expect(rows).toHaveLength(1);
    expect(rows[0]?.value.includes('sesame')).toBe(false);
  });
});

test('a subscription that a user makes inactive is not published', async () => {
  const { shopId, id } = await failing();
  const status = SubscriptionStatus.INACTIVE;
  await webhooks.client.updateSubscription({ shopId, actor, subscriptionId: id, status });
  expect(await triggersOf(shopId)).toEqual([]);
});

describe('exhausted deliveries', () => {
  test('are published after the last attempt', async () => {
    const { shopId, about } = await failing(0);
    // After each pause of the schedule the failures are too few to deactivate the subscription.
    for (let count = 2; count <= 11; count += 1) {
      await webhooks.db.pool.query('update subscriptions set failures = 0 where shop_id = $1', [
        shopId,
      ]);
      webhooks.advance(1.2 * DAY);
      await attempts(shopId, count);
    }
    const [event, ...more] = await webhooks.events(shopId);
    expect(more).toEqual([]);
    expect(event).toMatchObject({
      trigger: 'delivery.exhausted',
      detail: { value: { subscription: about, deliveries: 1, lastError: 'answered 500' } },
    });
  });

  test('are published at most once an hour, with their number', async () => {
    const { shopId, id } = await failing();
    const count = (deliveries: number) =>
      inTransaction(webhooks.db.pool, (tx) =>
        countExhausted(tx, [{ shopId, subscriptionId: id, deliveries, lastError: 'timed out' }]),
      );
    const numbers = async () =>
      (await webhooks.events(shopId)).map(
        ({ detail }) => detail.case === 'deliveriesExhausted' && detail.value.deliveries,
      );
    const anHourLater = () =>
      webhooks.db.pool.query(
        `update exhausted_deliveries set published_at = published_at - interval '1 hour' where shop_id = $1`,
        [shopId],
      );
    await count(3);
    for (let nth = 0; nth < 10; nth += 1) await count(100_000);
    await publishDueCounts(webhooks.db.pool);
    expect(await numbers()).toEqual([3]);

    await anHourLater();
    await Promise.all([publishDueCounts(webhooks.db.pool), publishDueCounts(webhooks.db.pool)]);
    expect(await numbers()).toEqual([3, 1_000_000]);

    await count(5);
    await anHourLater();
    await count(2);
    expect(await numbers()).toEqual([3, 1_000_000, 7]);
    await anHourLater();
    await publishDueCounts(webhooks.db.pool);
    expect(await numbers()).toEqual([3, 1_000_000, 7]);
  });

  test('are not published when the transaction that records them fails', async () => {
    const { shopId, id } = await failing();
    const rejected = inTransaction(webhooks.db.pool, async (tx) => {
      await countExhausted(tx, [{ shopId, subscriptionId: id, deliveries: 1, lastError: '' }]);
      throw new Error('the process dies');
    });
    await expect(rejected).rejects.toThrow('the process dies');
    expect(await triggersOf(shopId)).toEqual([]);
  });
});

describe('a signing secret', () => {
  test('is published when it is shown or rotated, with the actor and without the secret', async () => {
    const { shopId, id: subscriptionId, about } = await failing();
    const call = { shopId, actor, subscriptionId };
    const { secrets } = await webhooks.client.revealSecret(call);
    await webhooks.client.rotateSecret({ ...call, idempotencyKey: 'k' });
    await webhooks.client.rotateSecret({ ...call, idempotencyKey: 'k' });
    const events = await webhooks.events(shopId);
    expect(events).toMatchObject([
      { actor, detail: { value: { subscription: about, rotated: false } } },
      { actor, detail: { value: { subscription: about, rotated: true } } },
    ]);
    expect(events.map(({ trigger }) => trigger)).toEqual(['secret.revealed', 'secret.revealed']);
    expect(JSON.stringify(events, (_, v) => (typeof v === 'bigint' ? `${v}` : v))).not.toContain(
      secrets[0]?.value,
    );
  });
});

test('no subscription can be made for these events', async () => {
  const shopId = newShop();
  for (const trigger of ['subscription.failing', 'subscription.disabled', 'delivery.exhausted']) {
    const call = webhooks.subscribe({ shopId, url: receiver.url, trigger });
    expect(await refusal(call)).toMatchObject({ code: Code.InvalidArgument, field: 'trigger' });
  }
});
