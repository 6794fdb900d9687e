import { create } from '@bufbuild/protobuf';
import { type Timestamp, timestampFromDate } from '@bufbuild/protobuf/wkt';
import type pg from 'pg';
import { z } from 'zod';
import { DeliveryFilterSchema } from '../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { delivers } from '../../contract/views/payload.ts';
import { invalidField } from '../../platform/errors.ts';
import { id, parseInput, time } from '../../platform/input.ts';
import { inTransaction } from '../../platform/postgres.ts';
import { stateForbids } from '../log/delivery.ts';
import { getSubscription } from '../subscriptions/subscription-store.ts';
import type { Job } from './job.ts';
import { insertJob, jobOfKey } from './job-store.ts';
import type { RetainedCount, RetainedEvents, RetainedSpan } from './retained-events.ts';
import { tooMany } from './start-replay.ts';

export interface BackfillDependencies {
  readonly pool: pg.Pool;
  readonly retained: RetainedEvents;
  /** Retention of events or of the log, whichever is shorter. Days. */
  readonly keptDays: number;
}

export interface BackfillWish {
  readonly shopId: bigint;
  readonly subscriptionId: bigint;
  readonly from?: Timestamp | undefined;
  readonly to?: Timestamp | undefined;
}

const DAY_MS = 86_400_000;
const wishShape = z.object({ subscriptionId: id, from: time.optional(), to: time.optional() });

/**
 * How many retained events a backfill would process.
 *
 * @throws DomainError INVALID_ARGUMENT; NOT_FOUND; FAILED_PRECONDITION when the subscription is inactive or its topic
 *   does not deliver its trigger.
 */
export async function previewBackfill(
  deps: BackfillDependencies,
  wish: BackfillWish,
): Promise<RetainedCount> {
  return deps.retained.count(await spanOf(deps, wish));
}

/**
 * Starts a backfill: counts its events; its batches follow in the background. The same key returns the same backfill.
 *
 * @throws DomainError as {@link previewBackfill}; ALREADY_EXISTS for a key of another call; FAILED_PRECONDITION also
 *   for too many events, or while another job runs for the subscription.
 */
export async function startBackfill(
  deps: BackfillDependencies,
  o: BackfillWish & { readonly key: string },
): Promise<Job> {
  const { shopId, key, subscriptionId, from, to } = o;
  const asked = create(DeliveryFilterSchema, {
    subscriptionId,
    ...(from && { from }),
    ...(to && { to }),
  });
  const wanted = { shopId, key, asked, kind: 'backfill' as const };
  const known = await inTransaction(deps.pool, (tx) => jobOfKey(tx, wanted));
  if (known) return known;
  const span = await spanOf(deps, o);
  const { count, isMore } = await deps.retained.count(span);
  if (isMore) throw tooMany('the time', 'events');
  const filter = create(DeliveryFilterSchema, {
    subscriptionId,
    topic: span.topic,
    trigger: span.trigger,
    from: timestampFromDate(span.from),
    to: timestampFromDate(span.to),
  });
  const job = { ...wanted, filter };
  const parts = count === 0 ? [] : [{ subscriptionId, total: count }];
  return inTransaction(
    deps.pool,
    async (tx) => (await jobOfKey(tx, job)) ?? insertJob(tx, job, parts),
  );
}

async function spanOf(
  { pool, keptDays }: BackfillDependencies,
  wish: BackfillWish,
): Promise<RetainedSpan & { topic: string }> {
  const wanted = parseInput(wishShape, wish);
  const { from, to } = timeOf(wanted, keptDays);
  const subscription = await getSubscription(pool, wish.shopId, wanted.subscriptionId);
  const { topic, trigger, status } = subscription;
  if (!delivers(topic, trigger)) {
    throw stateForbids(`topic ${topic} says nothing about trigger ${trigger}`);
  }
  if (status !== 'active') throw stateForbids('the subscription is inactive');
  return { shopId: wish.shopId, topic, trigger, from, to };
}

/** By default from the oldest retained event until now. */
function timeOf(
  given: { readonly from?: Date | undefined; readonly to?: Date | undefined },
  keptDays: number,
): { from: Date; to: Date } {
  const now = Date.now();
  const oldest = new Date(now - keptDays * DAY_MS);
  const from = given.from ?? oldest;
  if (from < oldest) {
    throw invalidField(
      'from',
      `must lie within the last ${keptDays} days: events are kept no longer`,
    );
  }
  if (given.to && given.to <= from) throw invalidField('to', 'must lie after from');
  if (from.getTime() >= now) throw invalidField('from', 'must be past');
  return { from, to: new Date(Math.min(given.to?.getTime() ?? now, now)) };
}
