import type { Queryable } from '../platform/postgres.ts';
import type { Inspection, Kind } from './inspection.ts';
import { COLUMNS, type Row, toInspection } from './rows.ts';
import type { Lines } from './store.ts';

/** As many as surely fit into one message with everything at its longest. */
const ROUND_MAX = 30;

/**
 * The oldest pending inspection of each of the lines, for at most 30 of them. Looked up one by one: a
 * join that is planned once may read all that the shop ever inspected.
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

/** Longer texts are left to returns, which has taken them over. Bytes. */
const LONG_TEXT_BYTES = 2_000;

/** Deletes handovers that returns has taken, and the long texts that it stores now. */
export async function deleteHandovers(db: Queryable, shopId: bigint, ids: readonly bigint[]) {
  // Nobody waits for the disk: what a crash takes back is handed over once more, and ignored.
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

/** Lines whose handovers were taken up. */
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
 * Takes the lines of one shop that wait longest, for the time until they are due again: 10 s after
 * the first try, doubling to 320 s. What failed three times is taken alone, so that a line that
 * returns refuses holds up no other.
 */
export async function claimDue(db: Queryable): Promise<Claimed | undefined> {
  const { rows } = await db.query<ClaimedRow>(CLAIM, [ROUND_MAX]);
  const [first] = rows;
  if (!first) return undefined;
  const { shop_id: shopId, kind } = first;
  const inspectionIds = rows.map((row) => row.inspection_id);
  return { shopId, kind, lineItemIds: rows.map((row) => row.line_item_id), inspectionIds };
}

/** After an outage its handovers are tried again this soon, and up to twice as late. Seconds. */
const OUTAGE_PAUSE_S = 1;

/**
 * Gives the try back that a claim counted, for those that are still pending: an outage is no failure of
 * their own, after which they would wait for minutes and go one by one. Each comes at another time: should
 * one of them be what brings returns down, the others go without it by and by.
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
