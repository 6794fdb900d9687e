import { randomUUID } from 'node:crypto';
import { type Timestamp, timestampFromDate } from '@bufbuild/protobuf/wkt';
import { Code } from '@connectrpc/connect';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import type { Event } from '../../../proto/gen/rms/events/v1/events_pb.ts';
import {
  DeliveryState,
  type Replay,
  ReplayKind,
  ReplayState,
  SubscriptionStatus,
} from '../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import {
  type RetainingReturns,
  startRetainingReturns,
} from '../../../test/kit/services/retaining-returns.ts';
import { actor, newShop, refusal } from '../../../test/kit/services/running-service.ts';
import { until } from '../../../test/kit/until.ts';
import type { Log } from '../../../test/kit/webhooks/log.ts';
import { type Receiver, startReceiver } from '../../../test/kit/webhooks/receiver.ts';
import { createReplays, dying, type Replays } from '../../../test/kit/webhooks/replays.ts';
import {
  runWebhooks,
  type WebhooksUnderTest,
} from '../../../test/kit/webhooks/running-webhooks.ts';
import { sampleEvent } from '../../contract/sample-event.ts';
import type { Trigger } from '../../contract/vocabulary.ts';
import { LeaseLost } from '../../platform/leases/leases.ts';
import { BATCH } from './capacity.ts';
import { claimPart, retryPart } from './claim.ts';
import { readJob } from './job-store.ts';
import { replayBatch } from './worker.ts';

describe('backfill', () => {
  let returns: RetainingReturns;
  let webhooks: WebhooksUnderTest;
  let receiver: Receiver;
  beforeAll(async () => {
    returns = await startRetainingReturns();
    webhooks = await runWebhooks({ RETURNS_TARGET: returns.target });
    receiver = await startReceiver();
  });
  afterEach(() => {
    returns.failReadsWith = undefined;
    returns.countMore = false;
  });
  afterAll(async () => {
    await receiver?.stop();
    await webhooks?.stop();
    await returns?.stop();
  });

  const HOUR_MS = 3_600_000;
  const ago = (hours: number) => timestampFromDate(new Date(Date.now() - hours * HOUR_MS));

  function retain(shopId: bigint, count: number, trigger: Trigger = 'return.closed'): Event[] {
    const events = Array.from({ length: count }, (_, n) => ({
      ...sampleEvent(trigger, shopId),
      occurredAt: ago(1 + n / 100),
    }));
    returns.events.push(...events);
    return events;
  }

  async function backfill(shopId: bigint, subscriptionId: bigint, key = randomUUID()) {
    const wish = { shopId, actor, subscriptionId, from: ago(24), idempotencyKey: key };
    return there((await webhooks.client.startBackfill(wish)).replay);
  }

  interface Wish {
    readonly from: Timestamp;
    readonly to: Timestamp;
    readonly idempotencyKey: string;
    readonly subscriptionId: bigint;
  }

  function there(replay: Replay | undefined): Replay {
    if (!replay) throw new Error('an answer without its replay');
    return replay;
  }

  const read = async (shopId: bigint, replayId: bigint) =>
    there((await webhooks.client.getReplay({ shopId, actor, replayId })).replay);

  async function ended(shopId: bigint, replayId: bigint): Promise<Replay> {
    return until(async () => {
      const replay = await read(shopId, replayId);
      return replay.state !== ReplayState.RUNNING && replay;
    });
  }

  const eventsAt = (path: string) =>
    receiver.received
      .filter((one) => one.path === path)
      .map((one) => String(one.headers['x-service-event-id']))
      .sort();

  describe('a backfill', () => {
    test('sends each retained event of the trigger once, and none that was delivered before', async () => {
      const shopId = newShop();
      const path = `/hook/${shopId}`;
      const { id } = await webhooks.subscribe({ shopId, url: `${receiver.url}/${shopId}` });
      const events = retain(shopId, 30);
      retain(shopId, 3, 'return.created');
      await webhooks.publish(...events.slice(0, 12));
      await until(() => eventsAt(path).length === 12);
      const of = { shopId, actor, subscriptionId: id };
      const preview = await webhooks.client.previewBackfill({ ...of, from: ago(24) });
      expect(preview).toMatchObject({ events: 30, more: false });
      const started = await backfill(shopId, id);
      expect(started).toMatchObject({ kind: ReplayKind.BACKFILL, total: 30 });
      expect(await ended(shopId, started.id)).toMatchObject({
        state: ReplayState.DONE,
        done: 18,
        skipped: 12,
        filter: { subscriptionId: id, trigger: 'return.closed', topic: 'return' },
      });
      const all = events.map(({ eventId }) => eventId).sort();
      await until(() => eventsAt(path).length === 30);
      // A late fan-out and a second backfill send no event again.
      await webhooks.publish(...events);
      const again = await backfill(shopId, id);
      expect(await ended(shopId, again.id)).toMatchObject({ done: 0, skipped: 30 });
      const witness = sampleEvent('return.closed', shopId);
      await webhooks.publish(witness);
      await until(() => eventsAt(path).includes(witness.eventId));
      expect(eventsAt(path)).toEqual([...all, witness.eventId].sort());
      expect(new Set((await webhooks.deliveries(shopId)).map((one) => one.id)).size).toBe(31);
    });

    test('sends every page of the retained events', async () => {
      const shopId = newShop();
      const { id } = await webhooks.subscribe({ shopId, url: `${receiver.url}/${shopId}` });
      const count = 2 * BATCH + 1;
      retain(shopId, count);
      const started = await backfill(shopId, id);
      expect(await ended(shopId, started.id)).toMatchObject({ done: count, skipped: 0 });
      await until(() => new Set(eventsAt(`/hook/${shopId}`)).size === count);
    });

    test('sends the same bytes as fan-out, and leaves out customers that were redacted later', async () => {
      const shopId = newShop();
      const url = `${receiver.url}/${shopId}`;
      await webhooks.subscribe({ shopId, url: `${url}/first` });
      const [plain, redacted] = retain(shopId, 2).map((event, n) => ({
        ...event,
        returnId: BigInt(700 + n),
      }));
      if (!plain || !redacted) throw new Error('no events');
      returns.events.splice(-2, 2, plain, redacted);
      await webhooks.publish(plain, redacted);
      await until(() => eventsAt(`/hook/${shopId}/first`).length === 2);
      await until(async () =>
        (await webhooks.deliveries(shopId)).every((one) => one.state === DeliveryState.DELIVERED),
      );
      await webhooks.publish({
        ...sampleEvent('return.updated', shopId),
        trigger: 'customer.redacted',
        returnId: redacted.returnId,
        detail: {
          case: 'customerRedacted',
          value: { $typeName: 'rms.events.v1.CustomerRedacted', returnIds: [redacted.returnId] },
        },
      });
      const late = await webhooks.subscribe({ shopId, url: `${url}/second` });
      const started = await backfill(shopId, late.id);
      expect(await ended(shopId, started.id)).toMatchObject({ done: 2 });
      await until(() => eventsAt(`/hook/${shopId}/second`).length === 2);
      const bodies = (path: string, event: Event) =>
        receiver.received
          .filter((one) => one.path === `/hook/${shopId}/${path}`)
          .find((one) => one.headers['x-service-event-id'] === event.eventId)?.body ?? '';
      expect(bodies('second', plain)).toBe(bodies('first', plain));
      const email = plain.snapshot?.customer?.email ?? '-';
      expect(bodies('first', redacted)).toContain(email);
      expect(bodies('second', redacted)).not.toContain(email);
      expect(JSON.parse(bodies('second', redacted))).toMatchObject({ customer_email: null });
    });

    test('reads snapshots that were too large for their events, and skips events without one', async () => {
      const shopId = newShop();
      const { id } = await webhooks.subscribe({ shopId, url: `${receiver.url}/${shopId}` });
      const [there_, gone] = retain(shopId, 2);
      if (!there_?.snapshot || !gone) throw new Error('no events');
      returns.snapshots.set(8_001n, there_.snapshot);
      const omitted = { snapshotOmitted: true, snapshot: undefined };
      returns.events.splice(
        -2,
        2,
        Object.assign({ ...there_ }, omitted, { returnId: 8_001n }),
        Object.assign({ ...gone }, omitted, { returnId: 8_002n }),
      );
      const started = await backfill(shopId, id);
      expect(await ended(shopId, started.id)).toMatchObject({ done: 1, skipped: 1 });
      await until(() => eventsAt(`/hook/${shopId}`).length === 1);
    });

    test('waits while returns is unavailable, and continues', async () => {
      const shopId = newShop();
      const { id } = await webhooks.subscribe({ shopId, url: `${receiver.url}/${shopId}` });
      retain(shopId, 1);
      returns.failReadsWith = Code.Unavailable;
      // All retained events: the request names no start.
      const wish = { shopId, actor, subscriptionId: id, idempotencyKey: 'x' };
      const started = there((await webhooks.client.startBackfill(wish)).replay);
      await until(() => returns.failed > 0);
      returns.failReadsWith = undefined;
      expect(await ended(shopId, started.id)).toMatchObject({ state: ReplayState.DONE, done: 1 });
    });

    test('is the same for the same key; another one of the subscription has to wait', async () => {
      const shopId = newShop();
      const { id } = await webhooks.subscribe({ shopId, url: `${receiver.url}/${shopId}` });
      retain(shopId, 1);
      const wish = { shopId, actor, subscriptionId: id, from: ago(24), idempotencyKey: 'a' };
      const [one, other] = await Promise.all([
        webhooks.client.startBackfill(wish),
        webhooks.client.startBackfill(wish),
      ]);
      expect(one.replay?.id).toBe(other.replay?.id);
      const conflict = { ...wish, from: ago(23) };
      expect(await refusal(webhooks.client.startBackfill(conflict))).toMatchObject({
        code: Code.AlreadyExists,
        field: 'idempotency_key',
      });
      await ended(shopId, one.replay?.id ?? 0n);
      const listed = await webhooks.client.listReplays({ shopId, actor, subscriptionId: id });
      expect(listed.replays).toHaveLength(1);
    });
  });

  describe('rejects', () => {
    const invalid = { code: Code.InvalidArgument, reason: 'INVALID_FIELD' };
    const forbidden = { code: Code.FailedPrecondition, reason: 'STATE_FORBIDS' };

    test.each<[Partial<Wish>, object]>([
      [{ from: ago(24 * 8) }, { ...invalid, field: 'from' }],
      [{ from: ago(-1) }, { ...invalid, field: 'from' }],
      [{ from: { ...ago(24), nanos: 2e9 } }, { ...invalid, field: 'from' }],
      [{ to: { ...ago(1), seconds: 2n ** 62n } }, { ...invalid, field: 'to' }],
      [{ to: ago(30) }, { ...invalid, field: 'to' }],
      [
        { to: ago(24), from: ago(24) },
        { ...invalid, field: 'to' },
      ],
      [{ idempotencyKey: ' ' }, { ...invalid, field: 'idempotency_key' }],
      [{ subscriptionId: 0n }, { ...invalid, field: 'subscription_id' }],
      [{ subscriptionId: 999_999n }, { code: Code.NotFound, reason: 'SUBSCRIPTION_NOT_FOUND' }],
    ])('a backfill that breaks a rule: %#', async (more, expected) => {
      const shopId = newShop();
      const { id } = await webhooks.subscribe({ shopId, url: receiver.url });
      const wish = { shopId, actor, subscriptionId: id, idempotencyKey: randomUUID() };
      const asked = { ...wish, from: ago(24), ...more };
      expect(await refusal(webhooks.client.startBackfill(asked))).toMatchObject(expected);
    });

    test('a backfill of a pair that delivers no events, of an inactive one, and of too many events', async () => {
      const shopId = newShop();
      const pair = { topic: 'label', trigger: 'return.closed', url: receiver.url };
      const nothing = await webhooks.subscribe({ shopId, ...pair });
      expect(await refusal(backfill(shopId, nothing.id))).toMatchObject(forbidden);
      const { id } = await webhooks.subscribe({ shopId, url: receiver.url });
      retain(shopId, 1);
      returns.countMore = true;
      expect(await refusal(backfill(shopId, id))).toMatchObject(forbidden);
      const closed = { topic: 'return', trigger: 'return.closed', url: receiver.url };
      const inactive = { ...closed, status: SubscriptionStatus.INACTIVE };
      await webhooks.client.updateSubscription({ shopId, actor, subscriptionId: id, ...inactive });
      expect(await refusal(backfill(shopId, id))).toMatchObject(forbidden);
    });

    test.each(['getReplay', 'cancelReplay'] as const)('%s of an unknown replay', async (rpc) => {
      const shopId = newShop();
      const call = { shopId, actor, replayId: 999_999n };
      expect(await refusal(webhooks.client[rpc](call))).toMatchObject({
        code: Code.NotFound,
        reason: 'REPLAY_NOT_FOUND',
      });
      expect(await refusal(webhooks.client[rpc]({ ...call, replayId: 0n }))).toMatchObject({
        ...invalid,
        field: 'replay_id',
      });
    });

    test('a replay without a filter or a key, and a list with an invalid page', async () => {
      const shopId = newShop();
      const { client } = webhooks;
      expect(await refusal(client.previewReplay({ shopId, actor }))).toMatchObject({
        field: 'filter',
      });
      const keyless = { shopId, actor, filter: {} };
      expect(await refusal(client.startReplay(keyless))).toMatchObject({
        field: 'idempotency_key',
      });
      for (const [more, field] of [
        [{ pageSize: 201 }, 'page_size'],
        [{ pageSize: -1 }, 'page_size'],
        [{ cursor: 'x' }, 'cursor'],
        [{ subscriptionId: -1n }, 'subscription_id'],
      ] as const) {
        expect(await refusal(client.listReplays({ shopId, actor, ...more }))).toMatchObject({
          ...invalid,
          field,
        });
      }
    });
  });
});

describe('jobs whose processes are killed at any point', () => {
  let replays: Replays;
  let log: Log;
  beforeAll(async () => {
    replays = await createReplays();
    log = replays.log;
  });
  afterAll(() => replays?.stop());

  test('a batch whose claim another process took is rejected', async () => {
    const shopId = log.newShop();
    const subscriptionId = await log.subscribe(shopId);
    await log.add(shopId, [{ subscriptionId, ended: 'exhausted' }]);
    await replays.start(shopId, {});
    const late = await replays.claim(shopId);
    const next = await replays.claim(shopId);
    if (!late || !next) throw new Error('nothing was claimed');
    await expect(replayBatch(log.pool, late, { offsetMs: 0 })).rejects.toThrow(LeaseLost);
    expect(await log.queued(shopId, subscriptionId)).toEqual([]);
    expect(await replayBatch(log.pool, next, { offsetMs: 0 })).toBe(1);
    await expect(replayBatch(log.pool, next, { offsetMs: 0 })).rejects.toThrow(LeaseLost);
  });

  test('a claim belongs to one process until it expires', async () => {
    const shopId = log.newShop();
    const subscriptionId = await log.subscribe(shopId);
    await log.add(shopId, [{ subscriptionId, ended: 'exhausted' }]);
    await replays.start(shopId, {});
    const claims = await Promise.all([
      replays.claim(shopId),
      claimPart(log.pool),
      claimPart(log.pool),
    ]);
    expect(claims.filter((claim) => claim?.shopId === shopId)).toHaveLength(1);
  });

  test("a due time from before the database's clock was set back is due", async () => {
    const shopId = log.newShop();
    const subscriptionId = await log.subscribe(shopId);
    await log.add(shopId, [{ subscriptionId, ended: 'exhausted' }]);
    await replays.start(shopId, {});
    await log.pool.query(
      `update replay_parts set next_at = now() + interval '1 hour' where shop_id = $1`,
      [shopId],
    );
    expect((await claimPart(log.pool))?.shopId).toBe(shopId);
  });

  test('many concurrent ones, killed anywhere, send each delivery once', async () => {
    const shopId = log.newShop();
    const subscriptions = [await log.subscribe(shopId), await log.subscribe(shopId)];
    const all = Array.from({ length: 700 }, (_, n) => ({
      subscriptionId: subscriptions[n % 2] ?? 0n,
      ended: 'exhausted' as const,
    }));
    await log.add(shopId, all);
    const { id } = await replays.start(shopId, {});
    const one = async (n: number): Promise<void> => {
      for (let round = 0; round < 12; round += 1) {
        const claim = await replays.claim(shopId);
        if (!claim || claim.shopId !== shopId) return;
        const dies = (round + n) % 3 === 0;
        await replayBatch(dies ? dying(log.pool) : log.pool, claim, { offsetMs: 0 }).catch(
          () => {},
        );
      }
    };
    await Promise.all([one(0), one(1), one(2)]);
    await replays.runAll(shopId, []);
    const { rows } = await log.pool.query<{ n: number }>(
      'select count(*)::integer as n from queue where shop_id = $1',
      [shopId],
    );
    expect(rows[0]?.n).toBe(700);
    expect(await readJob(log.pool, shopId, id)).toMatchObject({ state: 'done', done: 700 });
  });

  test('a part fails after five errors that are not outages', async () => {
    const shopId = log.newShop();
    const subscriptionId = await log.subscribe(shopId);
    await log.add(shopId, [{ subscriptionId, ended: 'exhausted' }]);
    const { id } = await replays.start(shopId, {});
    for (const isOutage of [false, true, false, false, false, false]) {
      const claim = await replays.claim(shopId);
      if (claim) await retryPart(log.pool, claim, { restMs: 0, isOutage });
    }
    expect(await readJob(log.pool, shopId, id)).toMatchObject({ state: 'failed' });
    expect(await replays.batch(shopId)).toBeUndefined();
  });
});
