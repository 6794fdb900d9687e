import { fromJson } from '@bufbuild/protobuf';
import type pg from 'pg';
import { DeliveryFilterSchema } from '../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { inTransaction, type Queryable } from '../../platform/postgres.ts';
import { param, raw, type Sql, sql, unnamed } from '../../platform/sql.ts';
import { requeue } from '../delivery/queue/requeue.ts';
import { isMatch, isOfReturn, type ParsedFilter, parseFilter } from '../log/filter.ts';
import { lockSubscriptionShared } from '../subscriptions/subscription-store.ts';
import { capacityOf } from './capacity.ts';
import { type Claim, failPart, lockPart, noteProgress, type Part } from './claim.ts';
import { noteQueued } from './job-deliveries.ts';

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
