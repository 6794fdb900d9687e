import type { Queryable } from '../../platform/postgres/postgres.ts';
import { param, raw, type Sql, sql, unnamed } from '../../platform/postgres/sql.ts';
import { HAS_BODY } from '../delivery/queue/requeue.ts';
import { occurredAt } from '../delivery-id.ts';
import { type Filter, isMatch, isOfReturn } from '../log/filter.ts';
import { stateOf } from '../log/rows.ts';
import { MAX_JOB } from './job.ts';

export type Unreplayable =
  | 'waiting'
  | 'subscription_deleted'
  | 'subscription_inactive'
  | 'payload_gone';

export interface Preview {
  /** Number of deliveries that match, at most {@link MAX_JOB}. */
  readonly matched: number;
  /** Whether more deliveries match. Also true when more may match, because the scan ended at its limit. */
  readonly isMore: boolean;
  readonly oldestAt: Date | null;
  readonly newestAt: Date | null;
  /** The number of deliveries that a replay would send, by subscription. */
  readonly replayable: readonly { readonly subscriptionId: bigint; readonly total: number }[];
  readonly notReplayable: readonly { readonly reason: Unreplayable; readonly count: number }[];
}

/** Maximum number of deliveries that a preview scans, with any filter. */
const MAX_SCANNED = 1_000_000;

interface Group {
  readonly subscriptionId: bigint;
  readonly reason: Unreplayable | null;
  readonly count: number;
  readonly oldest: string;
  readonly newest: string;
}

/** When no delivery matches, the statement returns one row, with only the number of scanned deliveries. */
type Row = (Group | { readonly subscriptionId: null }) & { readonly scanned: number };

/**
 * Counts the deliveries that match a filter, by subscription and by whether a replay can send them.
 *
 * @param maxScanned maximum number of deliveries to scan; {@link MAX_SCANNED} by default.
 */
export async function previewReplay(
  db: Queryable,
  filter: Filter,
  maxScanned = MAX_SCANNED,
): Promise<Preview> {
  const { rows: all } = await db.query<Row>(unnamed(previewOf(filter, maxScanned)));
  const rows = all.flatMap((row) => (row.subscriptionId === null ? [] : [row]));
  const counted = rows.reduce((total, { count }) => total + count, 0);
  const oldest = rows.map((row) => row.oldest).toSorted()[0];
  const newest = rows
    .map((row) => row.newest)
    .toSorted()
    .at(-1);
  const reasons = Map.groupBy(
    rows.flatMap(({ reason, count }) => (reason === null ? [] : [{ reason, count }])),
    ({ reason }) => reason,
  );
  return {
    matched: Math.min(counted, MAX_JOB),
    isMore: counted > MAX_JOB || (all[0]?.scanned ?? 0) > maxScanned,
    oldestAt: oldest === undefined ? null : occurredAt(oldest),
    newestAt: newest === undefined ? null : occurredAt(newest),
    replayable: rows.flatMap(({ subscriptionId, reason, count }) =>
      reason === null ? [{ subscriptionId, total: count }] : [],
    ),
    notReplayable: [...reasons].map(([reason, all]) => ({
      reason,
      count: all.reduce((total, { count }) => total + count, 0),
    })),
  };
}

function previewOf(filter: Filter, maxScanned: number): Sql {
  const shop = param(filter.shopId);
  const subscriptions = param(filter.subscriptionIds);
  return sql`
with scanned as materialized (
  select d.id, d.subscription_id, d.payload_id, d.trigger, d.topic, d.ended, d.finished_at
    from deliveries d
   where d.shop_id = ${shop} and d.id >= ${filter.firstId} and d.id < ${filter.endId} and not d.is_test
     and (${subscriptions}::bigint[] is null or d.subscription_id = any(${subscriptions}))
   limit ${maxScanned} + 1
), matched as materialized (
  select d.id, d.subscription_id, d.ended, d.finished_at, d.payload_id, s.status, s.id is null or s.deleted_at is not null as is_deleted
    from scanned d
    left join subscriptions s on s.shop_id = ${shop} and s.id = d.subscription_id
   where ${isMatch(filter, 'd', stateOf('d'))} and ${isOfReturn(filter.shopId, filter.returnId)}
   limit ${raw(MAX_JOB)} + 1
), with_reason as (
  select d.id, d.subscription_id,
         case when d.is_deleted then 'subscription_deleted'
              when d.ended is null then 'waiting'
              when d.status = 'inactive' then 'subscription_inactive'
              when ${raw(HAS_BODY)} is not true then 'payload_gone' end as reason
    from matched d
    left join payloads p on p.shop_id = ${shop} and p.id = d.payload_id
), counted as (
  select subscription_id as "subscriptionId", reason, count(*)::integer as count,
         min(id::text) as oldest, max(id::text) as newest
    from with_reason group by 1, 2
)
select n.scanned, c.* from (select count(*)::integer as scanned from scanned) n
  left join counted c on true order by 2`;
}
