import { LONG_TEXT_BYTES } from '../contract/limits.ts';
import { addedJitter, createBackoff } from '../platform/backoff.ts';
import { createJobLease } from '../platform/job-lease.ts';
import type { Queryable } from '../platform/postgres.ts';
import { type Sql, sql, unnamed } from '../platform/sql.ts';
import type { Inspection, Kind } from './inspection.ts';
import { COLUMNS, type Row, toInspection } from './rows.ts';
import type { Lines } from './store.ts';

/** Maximum number of inspections in one call. So the message is small enough even with the longest texts. */
const ROUND_MAX = 30;

/** An inspection that returns may not have yet. */
export interface Pending extends Inspection {
  /** Whether the call that recorded it still has its lease. All inspections of a call have a common lease. */
  readonly isLeasedByCall: boolean;
  /** Whether it is leased by its call, and other pending inspections of that call are not in the list. */
  readonly isPartOfCall: boolean;
}

type PendingRow = Row & { readonly is_leased_by_call: boolean; readonly is_part_of_call: boolean };

/**
 * Returns the oldest pending inspection of each line item, for at most 30 line items. Reads one line item after
 * another, because PostgreSQL's stored plan of a join may read all inspections of the shop. Finds the others of a
 * call by `due_at`, which has an index. They have the same value as long as the call has its lease.
 */
export async function findOldestPending(db: Queryable, o: Lines): Promise<Pending[]> {
  const { rows } = await db.query<PendingRow>({
    name: 'oldest-pending',
    text: `select ${COLUMNS}, h.is_leased_by_call,
            h.is_leased_by_call and count(*) over (partition by h.lease_token) < (
              select count(*) from handovers c where c.due_at = h.due_at and c.lease_token = h.lease_token
            ) as is_part_of_call
       from (
         select distinct on (line_item_id) inspection_id, lease_token, due_at,
                lease_token is not null and attempts = 0 and due_at > now() as is_leased_by_call
           from handovers
          where shop_id = $1 and kind = $2 and line_item_id = any ($3::bigint[])
          order by line_item_id, inspection_id
       ) h
       join lateral (
         select * from inspections where shop_id = $1 and id = h.inspection_id limit 1
       ) i on true
      order by i.id limit $4`,
    values: [o.shopId, o.kind, o.lineItemIds, ROUND_MAX],
  });
  return rows.map((row) => ({
    ...toInspection(row),
    isLeasedByCall: row.is_leased_by_call,
    isPartOfCall: row.is_part_of_call,
  }));
}

/** Deletes handovers that are done, and the long texts, which returns now stores. */
export async function deleteHandovers(db: Queryable, shopId: bigint, ids: readonly bigint[]) {
  // The commit does not wait for the disk. If a crash loses the deletion, the inspections are handed over again, and
  // returns ignores them.
  await db.query({
    name: 'delete-handovers',
    text: `with deleted as (
             delete from handovers where shop_id = $1 and inspection_id = any ($2::bigint[])
           ), shortened as (
             update inspections
                set note = case when octet_length(note) <= $3 then note end,
                    note_sha256 = case when octet_length(note) > $3
                                       then sha256(convert_to(note, 'UTF8')) end,
                    description = case when octet_length(description) > $3 then '' else description end,
                    description_sha256 = case when octet_length(description) > $3
                                              then sha256(convert_to(description, 'UTF8')) end
              where shop_id = $1 and id = any ($2::bigint[])
                and (octet_length(note) > $3 or octet_length(description) > $3)
           )
           select set_config('synchronous_commit', 'off', true)`,
    values: [shopId, ids, LONG_TEXT_BYTES],
  });
}

/** A handover that this process has claimed. */
interface Handover {
  readonly shopId: bigint;
  readonly inspectionId: bigint;
  readonly kind: Kind;
  readonly lineItemId: bigint;
  /** Number of attempts, including the current one. */
  readonly attempts: number;
  readonly token: bigint;
}

/** Length of the lease of a handover. It is longer than the timeout of a call to returns. Milliseconds. */
const LEASE_MS = 15_000;

/**
 * The leases of handovers. After three failed attempts a handover is claimed alone: when returns always rejects it, it
 * does not delay others.
 */
export const HANDOVERS = createJobLease<Handover>({
  table: 'handovers',
  key: { shop_id: ({ shopId }) => shopId, inspection_id: ({ inspectionId }) => inspectionId },
  dueAt: 'due_at',
  leaseMs: LEASE_MS,
  tokens: 'lease_tokens',
  isOpen: sql`true`,
  due: (limit) => sql`
    with first as (
      select shop_id, inspection_id, kind, attempts from handovers
       where due_at <= now() order by due_at limit 1 for update skip locked
    )
    select h.shop_id, h.inspection_id from handovers h join first f
        on h.shop_id = f.shop_id and h.kind = f.kind
     where h.inspection_id = f.inspection_id
        or (h.due_at <= now() and h.attempts < 3 and f.attempts < 3)
     order by h.due_at limit ${limit} for update of h skip locked`,
  onClaim: sql`attempts = job.attempts + 1`,
  returning: sql`job.shop_id as "shopId", job.inspection_id as "inspectionId", job.kind,
    job.line_item_id as "lineItemId", job.attempts`,
});

/** The line items whose handovers one claim leased. */
export interface Claimed extends Lines {
  readonly handovers: readonly Handover[];
}

/** Claims the due handovers of one shop that have waited longest. */
export async function claimDue(db: Queryable): Promise<Claimed | undefined> {
  const handovers = await HANDOVERS.claim<Handover>(db, ROUND_MAX);
  const [first] = handovers;
  if (!first) return undefined;
  const lineItemIds = handovers.map(({ lineItemId }) => lineItemId);
  return { shopId: first.shopId, kind: first.kind, lineItemIds, handovers };
}

const BACKOFF = createBackoff({ firstMs: 10_000, longestMs: 320_000, jitter: addedJitter });

/**
 * Sets the time of the next attempt after a failure. Of all handovers of the claim, the one with the fewest attempts
 * decides.
 */
export async function postpone(db: Queryable, claimed: Claimed): Promise<void> {
  const pauseMs = BACKOFF(Math.min(...claimed.handovers.map(({ attempts }) => attempts)));
  await release(db, claimed, sql`due_at = now() + ${pauseMs}::float8 * interval '1 millisecond'`);
}

/**
 * For inspections of the claim that are still pending, does not count the attempt. So after an outage they do not wait
 * for minutes, and are not handed over one by one. Each becomes due at a random time within one to two seconds. If one
 * of them makes returns crash, the others are handed over without it.
 */
export async function undoAttempt(db: Queryable, claimed: Claimed): Promise<void> {
  const dueAt = sql`due_at = now() + (1 + random()) * interval '1 second'`;
  await release(db, claimed, sql`attempts = greatest(attempts - 1, 0), ${dueAt}`);
}

async function release(db: Queryable, { shopId, handovers }: Claimed, set: Sql): Promise<void> {
  const ids = handovers.map(({ inspectionId }) => inspectionId);
  const tokens = handovers.map(({ token }) => token);
  await db.query(
    unnamed(sql`
update handovers set lease_token = null, ${set}
 where shop_id = ${shopId} and inspection_id = any (${ids}::bigint[]) and lease_token = any (${tokens}::bigint[])`),
  );
}
