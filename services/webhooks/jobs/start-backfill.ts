import { create } from '@bufbuild/protobuf';
import { type Timestamp, timestampFromDate } from '@bufbuild/protobuf/wkt';
import type pg from 'pg';
import { z } from 'zod';
import { DeliveryFilterSchema } from '../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { delivers } from '../../contract/topics/topics.ts';
import { invalidField, stateForbids } from '../../platform/errors.ts';
import { id, parseInput, time } from '../../platform/input.ts';
import { inTransaction } from '../../platform/postgres.ts';
import { getSubscription } from '../subscriptions/subscription-store.ts';
import type { Job } from './job.ts';
import { insertJob, jobOfKey } from './job-store.ts';
import type { RetainedCount, RetainedEvents, RetainedSpan } from './retained-events.ts';
import { tooMany } from './start-replay.ts';

export interface BackfillDependencies {
  readonly pool: pg.Pool;
  readonly retained: RetainedEvents;
  /** How long a backfill may reach back: the retention of events or of the log, whichever is shorter. Days. */
  readonly keptDays: number;
}

export interface BackfillInput {
  readonly shopId: bigint;
  readonly subscriptionId: bigint;
  readonly from?: Timestamp | undefined;
  readonly to?: Timestamp | undefined;
}

const DAY_MS = 86_400_000;
const inputShape = z.object({ subscriptionId: id, from: time.optional(), to: time.optional() });

/**
 * Returns how many stored events a backfill would send.
 *
 * @throws DomainError INVALID_ARGUMENT; NOT_FOUND; FAILED_PRECONDITION when the subscription is inactive or its topic
 *   does not deliver its trigger.
 */
export async function previewBackfill(
  deps: BackfillDependencies,
  input: BackfillInput,
): Promise<RetainedCount> {
  return deps.retained.count(await spanOf(deps, input));
}

/**
 * Starts a backfill: counts its events and stores the job. The loop in `worker.ts` runs its batches. A repeat with the
 * same key returns the same backfill.
 *
 * @throws DomainError as {@link previewBackfill}; ALREADY_EXISTS for a key of another call; FAILED_PRECONDITION also
 *   for too many events, or while another job runs for the subscription.
 */
export async function startBackfill(
  deps: BackfillDependencies,
  o: BackfillInput & { readonly key: string },
): Promise<Job> {
  parseInput(inputShape, o);
  const { shopId, key, subscriptionId, from, to } = o;
  const requested = create(DeliveryFilterSchema, {
    subscriptionId,
    ...(from && { from }),
    ...(to && { to }),
  });
  const request = { shopId, key, requested, kind: 'backfill' as const };
  const existing = await inTransaction(deps.pool, (tx) => jobOfKey(tx, request));
  if (existing) return existing;
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
  const job = { ...request, filter };
  const parts = count === 0 ? [] : [{ subscriptionId, total: count }];
  return inTransaction(
    deps.pool,
    async (tx) => (await jobOfKey(tx, job)) ?? insertJob(tx, job, parts),
  );
}

async function spanOf(
  { pool, keptDays }: BackfillDependencies,
  input: BackfillInput,
): Promise<RetainedSpan & { topic: string }> {
  const parsed = parseInput(inputShape, input);
  const { from, to } = timeOf(parsed, keptDays);
  const subscription = await getSubscription(pool, input.shopId, parsed.subscriptionId);
  const { topic, trigger, status } = subscription;
  if (!delivers(topic, trigger)) {
    throw stateForbids(`topic ${topic} says nothing about trigger ${trigger}`);
  }
  if (status !== 'active') throw stateForbids('the subscription is inactive');
  return { shopId: input.shopId, topic, trigger, from, to };
}

/** Returns the period of the backfill. By default it is from the oldest stored event until now. */
function timeOf(
  requested: { readonly from?: Date | undefined; readonly to?: Date | undefined },
  keptDays: number,
): { from: Date; to: Date } {
  const now = Date.now();
  const oldest = new Date(now - keptDays * DAY_MS);
  const from = requested.from ?? oldest;
  if (from < oldest) {
    throw invalidField(
      'from',
      `must lie within the last ${keptDays} days: events are kept no longer`,
    );
  }
  if (requested.to && requested.to <= from) throw invalidField('to', 'must lie after from');
  if (from.getTime() >= now) throw invalidField('from', 'must be past');
  return { from, to: new Date(Math.min(requested.to?.getTime() ?? now, now)) };
}
