import type pg from 'pg';
import type { DeliveryFilter } from '../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { stateForbids } from '../../platform/errors.ts';
import { inTransaction } from '../../platform/postgres.ts';
import { parseFilter, resolveFilter } from '../log/filter.ts';
import { type Job, MAX_JOB } from './job.ts';
import { insertJob, jobOfKey } from './job-store.ts';
import { type Preview, previewReplay } from './preview.ts';

/**
 * Counts the deliveries that a replay with this filter would send.
 *
 * @throws DomainError INVALID_ARGUMENT; NOT_FOUND for a subscription that does not exist.
 */
export async function previewFilter(
  pool: pg.Pool,
  shopId: bigint,
  requested: DeliveryFilter,
): Promise<Preview> {
  return previewReplay(pool, await resolveFilter(pool, shopId, parseFilter(requested)));
}

/**
 * Starts a replay: counts its deliveries and stores the job. `preview.ts` and `replay-batch.ts` choose the deliveries. A
 * background loop runs its batches. The index `replay_parts_alone` allows one running replay or backfill of a
 * subscription. A repeat with the same key returns the same replay.
 *
 * @throws DomainError INVALID_ARGUMENT; NOT_FOUND for a subscription that does not exist; ALREADY_EXISTS for a key of
 *   another call; FAILED_PRECONDITION for too many deliveries, or while another job runs for one of the subscriptions.
 */
export async function startReplay(
  pool: pg.Pool,
  o: { shopId: bigint; key: string; requested: DeliveryFilter },
): Promise<Job> {
  const job = { ...o, kind: 'replay' as const, filter: o.requested };
  const parsed = parseFilter(o.requested);
  const existing = await inTransaction(pool, (tx) => jobOfKey(tx, job));
  if (existing) return existing;
  const preview = await previewReplay(pool, await resolveFilter(pool, o.shopId, parsed));
  if (preview.isMore) throw tooMany('filter', 'deliveries');
  return inTransaction(pool, async (tx) => {
    return (await jobOfKey(tx, job)) ?? insertJob(tx, job, preview.replayable);
  });
}

/** The error for a job that would be too large (FAILED_PRECONDITION). */
export function tooMany(what: string, things: string) {
  return stateForbids(
    `${what} names more than ${MAX_JOB} ${things}, or too much to count: narrow its time`,
  );
}
