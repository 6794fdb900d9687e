import { LONG_TEXT_BYTES } from '../contract/limits.ts';
import type { Queryable } from '../platform/postgres.ts';
import type { Inspection, Kind } from './inspection.ts';
import { COLUMNS, type Row, toInspection } from './rows.ts';
import type { Lines } from './store.ts';

/** The most that fit into one message with the longest texts. */
const ROUND_MAX = 30;

/**
 * The oldest pending inspection of each line, for at most 30 lines. Reads line by line, because the stored plan of a
 * join may read all inspections of the shop.
 */
export async function findOldestPending(db: Queryable, o: Lines): Promise<Inspection[]> {
  const { rows } = await db.query<Row>({
    name: 'oldest-pending',
    text: `select ${COLUMNS}
       from (
         select distinct on (line_item_id) inspection_id from handovers
          where shop_id = $1 and kind = $2 and line_item_id = any ($3::bigint[])
          order by line_item_id, inspection_id
       ) h
       join lateral (
         select * from inspections where shop_id = $1 and id = h.inspection_id limit 1
       ) i on true
      order by i.id limit $4`,
    values: [o.shopId, o.kind, o.lineItemIds, ROUND_MAX],
  });
  return rows.map(toInspection);
}

/** Deletes completed handovers, and the long texts that returns stores now. */
export async function deleteHandovers(db: Queryable, shopId: bigint, ids: readonly bigint[]) {
  // The commit does not wait for the disk. After a crash a lost deletion causes a second handover, which returns
  // ignores.
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

/** The lines of one claim. */
export interface Claimed extends Lines {
  readonly inspectionIds: readonly bigint[];
}

interface ClaimedRow {
  readonly shop_id: bigint;
  readonly inspection_id: bigint;
  readonly kind: Kind;
  readonly line_item_id: bigint;
}

/**
 * Claims the lines of one shop that have waited longest, until they are due again: 10 s after the first attempt,
 * doubling to 320 s. After three failed attempts a line is claimed alone, so that a line that returns refuses does
 * not delay the others.
 */
export async function claimDue(db: Queryable): Promise<Claimed | undefined> {
  const { rows } = await db.query<ClaimedRow>(CLAIM, [ROUND_MAX]);
  const [first] = rows;
  if (!first) return undefined;
  const { shop_id: shopId, kind } = first;
  const inspectionIds = rows.map((row) => row.inspection_id);
  return { shopId, kind, lineItemIds: rows.map((row) => row.line_item_id), inspectionIds };
}

/** The shortest pause after an outage; the longest is twice as long. Seconds. */
const OUTAGE_PAUSE_S = 1;

/**
 * Takes back the attempt that a claim counted, for inspections that are still pending. After an outage they must not
 * wait for minutes, or go one by one. Each gets another due time: if one of them makes returns fail, the others are
 * handed over without it.
 */
export async function giveBack(db: Queryable, claimed: Claimed): Promise<void> {
  await db.query(
    `update handovers
        set attempts = greatest(attempts - 1, 0), due_at = now() + make_interval(secs => $3 * (1 + random()))
      where shop_id = $1 and inspection_id = any ($2::bigint[])`,
    [claimed.shopId, claimed.inspectionIds, OUTAGE_PAUSE_S],
  );
}

const CLAIM = `
with first as (
  select shop_id, inspection_id, kind, attempts from handovers
   where due_at <= now() order by due_at limit 1 for update skip locked
), due as (
  select h.shop_id, h.inspection_id from handovers h join first f
    on h.shop_id = f.shop_id and h.kind = f.kind
   where h.inspection_id = f.inspection_id
      or (h.due_at <= now() and h.attempts < 3 and f.attempts < 3)
   order by h.due_at limit $1 for update of h skip locked
)
update handovers h
   set attempts = h.attempts + 1,
       due_at = now() + make_interval(secs => 10 * 2 ^ least(h.attempts, 5))
  from due where h.shop_id = due.shop_id and h.inspection_id = due.inspection_id
returning h.shop_id, h.inspection_id, h.kind, h.line_item_id`;
