import { fromJson } from '@bufbuild/protobuf';
import { timestampDate } from '@bufbuild/protobuf/wkt';
import type pg from 'pg';
import type { Event } from '../../../proto/gen/rms/events/v1/events_pb.ts';
import { DeliveryFilterSchema } from '../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { payloadVersionServed } from '../../contract/versions.ts';
import { LeaseLost } from '../../platform/leases/leases.ts';
import { isOutage } from '../../platform/postgres/outage.ts';
import { inTransaction, type Queryable } from '../../platform/postgres/postgres.ts';
import { param, raw, type Sql, sql, unnamed } from '../../platform/postgres/sql.ts';
import { startLoop, type Worker } from '../../platform/process/worker.ts';
import type { Logger } from '../../platform/telemetry/log.ts';
import type { Telemetry } from '../../platform/telemetry/telemetry.ts';
import { isUnavailable } from '../../platform/values/errors.ts';
import { notifyDue } from '../delivery/queue/notify.ts';
import { lockQueue } from '../delivery/queue/queue-changes.ts';
import type { QueueRef } from '../delivery/queue/queue-ref.ts';
import { requeue } from '../delivery/queue/requeue.ts';
import { redactedAmong, returnKeyOf } from '../fan-out/fan-out.ts';
import { insertDeliveries, type NewDelivery } from '../fan-out/insert.ts';
import { bodyWithoutCustomer, shapeBody } from '../fan-out/shape.ts';
import { lockShops } from '../fan-out/shop-locks.ts';
import { addSnapshot, type ReadSnapshot } from '../fan-out/snapshots.ts';
import { isMatch, isOfReturn, type ParsedFilter, parseFilter } from '../log/filter.ts';
import { payloadVersion } from '../subscriptions/payload-version.ts';
import {
  type LockedSubscription,
  lockSubscriptionShared,
} from '../subscriptions/subscription-store.ts';
import { capacityOf } from './capacity.ts';
import {
  type Claim,
  claimPart,
  failPart,
  lockPart,
  noteProgress,
  noteQueued,
  PARTS,
  type Part,
  readPart,
  retryPart,
} from './claim.ts';
import type { RetainedEvents, RetainedSpan } from './retained-events.ts';

interface ReplayWorkerOptions extends BackfillBatchDependencies {
  readonly logger: Logger;
  readonly telemetry: Telemetry;
}

/** Maximum time until this process finds a job that another process started. Milliseconds. */
const IDLE_MS = 2_000;
/** Pause of this process between two batches, of the same job or not. Milliseconds. */
const BETWEEN_MS = 20;
/** Pause after a failed batch. Milliseconds. */
const RETRY_MS = 5_000;

/**
 * Starts the loop that works on replays and backfills, one batch at a time. Several processes may run it in parallel.
 * Each batch needs a claim on its part. A batch whose claim is lost is rolled back.
 */
export function startReplays(o: ReplayWorkerOptions): Worker & { wake(): void } {
  const replayed = o.telemetry.meter.createCounter('webhooks.replayed', {
    description: 'Deliveries started by replays and backfills',
  });
  const stale = o.telemetry.meter.createCounter('webhooks.replays.stale', {
    description: 'Batches that were rolled back because another process had claimed their part',
  });
  const heartbeat = PARTS.heartbeat(o.pool, o.logger);
  return startLoop({
    name: 'replays',
    idleMs: IDLE_MS,
    logger: o.logger,
    async step() {
      const claim = await claimPart(o.pool);
      if (!claim) return 'idle';
      try {
        const count = await heartbeat.during([claim], { work: () => batchOf(o, claim) });
        if (count > 0) replayed.add(count);
      } catch (error) {
        if (!(error instanceof LeaseLost)) throw error;
        stale.add(1);
        o.logger.warn({ jobId: claim.jobId }, 'job batch dropped, claim lost');
      }
      return BETWEEN_MS;
    },
  });
}

/** Runs the claimed batch. When it fails, it is repeated later. @throws LeaseLost */
async function batchOf(
  o: BackfillBatchDependencies & { readonly logger: Logger },
  claim: Claim,
): Promise<number> {
  try {
    const part = await readPart(o.pool, claim);
    if (part.kind === 'backfill') return await backfillBatch(o, part);
    return await replayBatch(o.pool, claim, { offsetMs: o.offsetMs() });
  } catch (error) {
    if (error instanceof LeaseLost) throw error;
    const isTransient = isOutage(error) || isUnavailable(error);
    await retryPart(o.pool, claim, { restMs: RETRY_MS, isOutage: isTransient });
    const { jobId, shopId } = claim;
    o.logger[isTransient ? 'warn' : 'error']({ err: error, jobId, shopId }, 'a batch failed');
    return 0;
  }
}

interface BackfillBatchDependencies {
  readonly pool: pg.Pool;
  readonly retained: RetainedEvents;
  readonly readSnapshot: ReadSnapshot;
  /** The current day of the version calendar. */
  readonly today: () => Date;
  /** Offset of the retry clock. */
  readonly offsetMs: () => number;
}

/** Approximate maximum size of the bodies in one batch. Bytes. */
const BATCH_BYTES = 8 * 1024 * 1024;

/**
 * Queues the next stored events for a subscription. First it reads the events from the returns service. Then one
 * transaction writes the deliveries, the place where the next batch begins, and the progress. The id of a delivery
 * depends only on the event and the subscription, so deliveries that already exist are skipped.
 *
 * @returns the number of new deliveries.
 * @throws LeaseLost when another process owns the claim; errors of the returns service or the database. The batch is
 *   then repeated later.
 */
async function backfillBatch(o: BackfillBatchDependencies, part: Part): Promise<number> {
  const now = await inTransaction(o.pool, (tx) => capacityFor(tx, part));
  if (now.batch === 0) return 0;
  const { topic } = now;
  const version = payloadVersionServed(
    await payloadVersion(o.pool, part.shopId, o.today()),
    o.today(),
  ).version;
  const span = { ...spanOf(part), cursor: part.cursor, limit: now.batch };
  const page = await shapedPage(o, span, { topic, version, subscriptionId: part.subscriptionId });
  return inTransaction(o.pool, async (tx) => {
    await lockShops(tx, { fannedOut: [part.shopId], redacted: [] });
    const target = await lockSubscriptionShared(tx, part);
    await lockPart(tx, part);
    if (!target?.isActive || target.topic !== topic || target.trigger !== span.trigger) {
      // The next batch reads again, and decides.
      await noteProgress(tx, part, { cursor: part.cursor, done: 0, skipped: 0, restMs: 0 });
      return 0;
    }
    const added = await addBackfilled(tx, part, page.deliveries, { offsetMs: o.offsetMs() });
    await noteQueued(tx, part, added);
    await noteProgress(tx, part, {
      cursor: page.nextCursor,
      done: added.length,
      skipped: page.events - added.length,
      restMs: page.nextCursor === '' ? undefined : now.restMs,
    });
    return added.length;
  });
}

/** Returns how many deliveries may be added now. Marks a part that cannot continue as failed. @throws LeaseLost */
async function capacityFor(
  tx: pg.PoolClient,
  part: Part,
): Promise<{ batch: number; restMs: number; topic: string }> {
  const target = await lockSubscriptionShared(tx, part);
  const { isStuck } = await lockPart(tx, part);
  const failure = failureOf(target, spanOf(part), isStuck);
  if (!target || failure !== undefined) {
    await failPart(tx, part, failure ?? '');
    return { batch: 0, restMs: 0, topic: '' };
  }
  const { batch, restMs } = await capacityOf(tx, part, target);
  if (batch === 0) {
    await noteProgress(tx, part, { cursor: part.cursor, done: 0, skipped: 0, restMs });
  }
  return { batch, restMs, topic: target.topic };
}

/** Returns why the part cannot continue; undefined when it can. */
function failureOf(
  target: LockedSubscription | undefined,
  span: RetainedSpan & { topic: string },
  isStuck: boolean,
): string | undefined {
  if (!target) return 'the subscription was deleted';
  if (target.topic !== span.topic || target.trigger !== span.trigger) {
    return 'topic or trigger of the subscription were changed';
  }
  return isStuck ? 'nothing was taken for a week' : undefined;
}

function spanOf(part: Part): RetainedSpan & { topic: string } {
  // `startBackfill` stored both times in the filter.
  const { topic, trigger, from, to } = fromJson(DeliveryFilterSchema, part.filter);
  if (!from || !to) throw new Error('the filter of the backfill has no time');
  return { shopId: part.shopId, topic, trigger, from: timestampDate(from), to: timestampDate(to) };
}

interface ShapedPage {
  readonly deliveries: readonly NewDelivery[];
  /** Number of events on the page. This includes events whose snapshot no longer exists. */
  readonly events: number;
  readonly nextCursor: string;
}

type Shape = { topic: string; version: string; subscriptionId: bigint };

/**
 * Reads a page of events and shapes their bodies, up to about 8 MiB. A larger page is read again, with fewer events.
 */
async function shapedPage(
  o: BackfillBatchDependencies,
  span: RetainedSpan & { cursor: string; limit: number },
  shape: Shape,
): Promise<ShapedPage> {
  const { events, nextCursor } = await o.retained.read(span);
  const deliveries: NewDelivery[] = [];
  let bytes = 0;
  for (const [at, event] of events.entries()) {
    if (bytes > BATCH_BYTES) {
      const shorter = await o.retained.read({ ...span, limit: at });
      return { deliveries, events: at, nextCursor: shorter.nextCursor };
    }
    const delivery = await shaped(o, event, shape);
    if (!delivery) continue;
    bytes += delivery.body.length;
    deliveries.push(delivery);
  }
  return { deliveries, events: events.length, nextCursor };
}

/** Shapes the delivery of an event. Returns undefined when the snapshot of the event no longer exists. */
async function shaped(
  o: BackfillBatchDependencies,
  event: Event,
  { topic, version, subscriptionId }: Shape,
): Promise<NewDelivery | undefined> {
  const whole = event.snapshotOmitted ? await addSnapshot(event, o.readSnapshot) : event;
  if (!whole) return undefined;
  const body = shapeBody(whole, { topic, version, isRedacted: false });
  return body && { event, subscriptionId, topic, version, body, isTest: false };
}

/**
 * Writes deliveries of old events to one subscription. They are sent after fresh deliveries. Customers that were
 * redacted in the meantime are left out. The caller must hold the lock of the shop until its commit, which excludes
 * redactions.
 *
 * @returns the ids of the new deliveries.
 */
export async function addBackfilled(
  tx: Queryable,
  queue: QueueRef,
  deliveries: readonly NewDelivery[],
  o: { offsetMs: number },
): Promise<string[]> {
  if (deliveries.length === 0) return [];
  const redacted = await redactedAmong(
    tx,
    deliveries.map(({ event }) => event),
  );
  const allowed = deliveries.map((delivery) => {
    if (!redacted.has(returnKeyOf(delivery.event))) return delivery;
    return { ...delivery, body: bodyWithoutCustomer(delivery.topic, delivery.body) };
  });
  await lockQueue(tx, queue);
  const { offsetMs } = o;
  const added = await insertDeliveries(tx, allowed, { offsetMs, isRetry: true });
  if (added.length === 0) return [];
  await notifyDue(tx, [queue], { isChange: false });
  return added.map(({ id }) => id);
}

/** Maximum number of deliveries that one batch scans. So the search for a rare state ends. */
const MAX_SCANNED = 1_000;

/**
 * Queues the next deliveries of a replay again, oldest first. One transaction stores the queued deliveries, the place
 * where the next batch begins, and the progress. So each delivery is replayed once, even after a crash. Returns the
 * number of queued deliveries.
 *
 * Takes only deliveries that had ended when the replay started. So it skips deliveries that this or another replay has
 * sent since then.
 *
 * @throws LeaseLost when another process owns the claim.
 */
export function replayBatch(pool: pg.Pool, claim: Claim, o: { offsetMs: number }): Promise<number> {
  return inTransaction(pool, async (tx) => {
    const target = await lockSubscriptionShared(tx, claim);
    const part = await lockPart(tx, claim);
    if (!target) {
      await failPart(tx, claim, 'the subscription was deleted');
      return 0;
    }
    const { batch, restMs } = await capacityOf(tx, claim, target);
    if (batch === 0) {
      if (part.isStuck) await failPart(tx, claim, 'nothing was taken for a week');
      else await noteProgress(tx, claim, { cursor: part.cursor, done: 0, skipped: 0, restMs });
      return 0;
    }
    const { ids, scannedTo } = await nextIds(tx, part, batch);
    const started = await requeue(tx, { shopId: claim.shopId, ids, offsetMs: o.offsetMs });
    await noteQueued(tx, claim, started);
    await noteProgress(tx, claim, {
      cursor: scannedTo ?? part.cursor,
      done: started.length,
      skipped: 0,
      restMs: scannedTo === undefined ? undefined : restMs,
    });
    if (scannedTo === undefined) await countSkipped(tx, claim);
    return started.length;
  });
}

interface Next {
  readonly ids: readonly string[];
  /** The delivery after which the next batch begins; undefined at the end. */
  readonly scannedTo: string | undefined;
}

/** Finds the next deliveries that match the filter. */
async function nextIds(tx: Queryable, part: Part, limit: number): Promise<Next> {
  const { rows } = await tx.query<{ id: string; isMatch: boolean }>(
    unnamed(candidates(part, filterOf(part))),
  );
  const matches = rows.filter(({ isMatch }) => isMatch).slice(0, limit);
  const isCut = matches.length === limit || rows.length === MAX_SCANNED;
  const last = matches.length === limit ? matches.at(-1) : rows.at(-1);
  return { ids: matches.map(({ id }) => id), scannedTo: isCut ? last?.id : undefined };
}

function candidates({ shopId, ...part }: Part, filter: ParsedFilter): Sql {
  const after = param(part.cursor || null);
  return sql`
with scanned as materialized (
  select d.id, d.payload_id, d.trigger, d.topic, d.ended, d.finished_at, d.is_test
    from deliveries d
   where d.shop_id = ${shopId} and d.subscription_id = ${part.subscriptionId} and (${after}::uuid is null or d.id > ${after})
     and d.id >= ${filter.firstId} and d.id < ${filter.endId}
   order by d.id limit ${raw(MAX_SCANNED)}
)
select d.id, not d.is_test and d.ended is not null and d.finished_at < ${part.startedAt}
             and ${isMatch(filter, 'd', sql`d.ended`)} and ${isOfReturn(shopId, filter.returnId)} as "isMatch"
  from scanned d order by d.id`;
}

/** Returns the stored filter of the job. It was validated when the job was started. */
function filterOf(part: Part): ParsedFilter {
  return parseFilter(fromJson(DeliveryFilterSchema, part.filter));
}

/** Stores the number of skipped deliveries: those that the preview counted and the replay did not send. */
async function countSkipped(
  tx: Queryable,
  { shopId, jobId, subscriptionId }: Claim,
): Promise<void> {
  await tx.query(
    `update replay_parts set skipped = greatest(total - done, 0)
      where shop_id = $1 and job_id = $2 and subscription_id = $3`,
    [shopId, jobId, subscriptionId],
  );
}
