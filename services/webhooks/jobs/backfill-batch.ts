import { fromJson } from '@bufbuild/protobuf';
import { timestampDate } from '@bufbuild/protobuf/wkt';
import type pg from 'pg';
import type { Event } from '../../../proto/gen/rms/events/v1/events_pb.ts';
import { DeliveryFilterSchema } from '../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { payloadVersionServed } from '../../contract/versions.ts';
import { inTransaction } from '../../platform/postgres.ts';
import type { NewDelivery } from '../fan-out/insert.ts';
import { shapeBody } from '../fan-out/shape.ts';
import { lockShops } from '../fan-out/shop-locks.ts';
import { addSnapshot, type ReadSnapshot } from '../fan-out/snapshots.ts';
import { payloadVersion } from '../subscriptions/payload-version.ts';
import {
  type LockedSubscription,
  lockSubscriptionShared,
} from '../subscriptions/subscription-store.ts';
import { addBackfilled } from './add-backfilled.ts';
import { capacityOf } from './capacity.ts';
import { failPart, lockPart, noteProgress, type Part } from './claim.ts';
import { noteQueued } from './job-deliveries.ts';
import type { RetainedEvents, RetainedSpan } from './retained-events.ts';

export interface BackfillBatchDependencies {
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
export async function backfillBatch(o: BackfillBatchDependencies, part: Part): Promise<number> {
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
