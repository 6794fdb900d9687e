import type { Actor } from '../../proto/gen/rms/common/v1/actor_pb.ts';
import { allInOrder } from '../platform/postgres/all-in-order.ts';
import { type PackedTexts, packedText, packTexts } from '../platform/postgres/packed-texts.ts';
import { type Queryable, together } from '../platform/postgres/postgres.ts';
import { actorKindText } from '../platform/values/actor.ts';
import type { Finding, Inspection, Kind } from './inspection.ts';
import { COLUMNS, type Row, toInspection } from './rows.ts';

/** Line items of one shop, and the kind of inspection to read or write. */
export interface Lines {
  readonly shopId: bigint;
  readonly kind: Kind;
  readonly lineItemIds: readonly bigint[];
}

/** The newest inspection of a line item. */
export interface Current extends Inspection {
  /** Whether the inspection is so new that an equal finding without a time counts as a repeat. */
  readonly isFresh: boolean;
  /** SHA-256 of the long texts. Only the returns service stores the texts themselves. */
  readonly hashes: { readonly note: Buffer | null; readonly description: Buffer | null };
}

/** For this time after a finding, an equal finding without a time counts as a repeat. Seconds. */
const REPEAT_SECONDS = 60;

// Reads one line item after another, because PostgreSQL's stored plan of a join may read all inspections of the shop.
const SELECT_CURRENT = `
select ${COLUMNS}, l.inspection_id as newest_id,
       i.time_defaulted and (i.created_at > now() - make_interval(secs => $4)
         or exists (select from handovers h where h.shop_id = $1 and h.inspection_id = i.id)) as is_fresh
  from inspected_lines l
  left join lateral (
    select * from inspections where shop_id = $1 and id = l.inspection_id limit 1
  ) i on true
 where l.shop_id = $1 and l.kind = $2 and l.line_item_id = any ($3::bigint[])`;

/** A row of {@link SELECT_CURRENT}. For a line item without an inspection, all columns except `newest_id` are null. */
type CurrentRow = { readonly newest_id: bigint | null } & (
  | (Row & { readonly is_fresh: boolean })
  | { readonly id: null }
);

/**
 * Returns the newest inspection of each line item, by the id of the line item. Line items without an inspection are
 * left out.
 */
export async function findCurrent(db: Queryable, o: Lines): Promise<Map<bigint, Current>> {
  const values = [o.shopId, o.kind, o.lineItemIds, REPEAT_SECONDS];
  const text = SELECT_CURRENT;
  const { rows } = await db.query<CurrentRow>({ name: 'find-current', text, values });
  return byLine(rows);
}

function byLine(rows: readonly CurrentRow[]): Map<bigint, Current> {
  const found = rows.flatMap((row) =>
    row.id === null
      ? []
      : {
          ...toInspection(row),
          isFresh: row.is_fresh,
          hashes: { note: row.note_sha256, description: row.description_sha256 },
        },
  );
  return new Map(found.map((current) => [current.lineItemId, current]));
}

/** Whether none of these inspections was deleted. */
export async function areStored(
  db: Queryable,
  shopId: bigint,
  inspections: readonly Pick<Inspection, 'id'>[],
): Promise<boolean> {
  const { rowCount } = await db.query(
    'select from inspections where shop_id = $1 and id = any ($2::bigint[])',
    [shopId, inspections.map(({ id }) => id)],
  );
  return rowCount === inspections.length;
}

/**
 * Locks line items until the transaction ends, always in the same order. Also locks line items without an inspection.
 *
 * @returns the newest inspection of each line item that has one, by the id of the line item.
 */
export async function lockLines(tx: Queryable, o: Lines): Promise<Map<bigint, Current>> {
  const [, { rows }] = await together(tx, () => allInOrder([insertLines(tx, o), lockRows(tx, o)]));
  // A statement that waited for a lock sees the new row of the line item, but the inspection that was the newest
  // before.
  const isOutdated = rows.some((row) => row.newest_id !== row.id);
  return isOutdated ? findCurrent(tx, o) : byLine(rows);
}

/**
 * Inserts the rows of line items without an inspection, in the order in which they are locked. First leaves out those
 * that have a row, because a conflict costs more than one search for all.
 */
function insertLines(tx: Queryable, o: Lines) {
  return tx.query({
    name: 'insert-lines',
    text: `insert into inspected_lines (shop_id, kind, line_item_id)
           select $1::bigint, $2::text, line from unnest($3::bigint[]) as given (line)
            where line <> all (array(select line_item_id from inspected_lines
                                      where shop_id = $1 and kind = $2 and line_item_id = any ($3)))
            order by line
           on conflict (shop_id, kind, line_item_id) do nothing`,
    values: [o.shopId, o.kind, o.lineItemIds],
  });
}

function lockRows(tx: Queryable, o: Lines) {
  return tx.query<CurrentRow>({
    name: 'lock-lines',
    text: `${SELECT_CURRENT} order by l.line_item_id for update of l`,
    values: [o.shopId, o.kind, o.lineItemIds, REPEAT_SECONDS],
  });
}

/** How long a call hands over, or waits for, what earlier calls recorded about its line items. Seconds. */
export const EARLIER_SECONDS = 5;
/** How long the call to returns with its own findings may then take. Seconds. */
export const OWN_CALL_SECONDS = 10;
/**
 * Length of the lease with which a call records its findings. After this time the loop in `hand-over.ts` hands them
 * over. Seconds.
 */
const OWN_HANDOVER_SECONDS = EARLIER_SECONDS + OWN_CALL_SECONDS;

/** The inspections that {@link insertInspections} recorded, by the id of the line item. */
export interface Stored {
  readonly inspections: ReadonlyMap<bigint, Inspection>;
  /** Whether older inspections of these line items may not have been handed over yet. */
  readonly othersPending: boolean;
}

/** The columns of an inspection that the database sets. */
interface InsertedRow {
  readonly id: bigint;
  readonly line_item_id: bigint;
  readonly inspected_at: Date;
  readonly others_pending: boolean;
}

/**
 * Records findings about some of the locked line items, and a handover for each.
 *
 * @param o.lineItemIds all locked line items.
 */
export async function insertInspections(
  tx: Queryable,
  o: Lines & { readonly actor: Actor; readonly findings: readonly Finding[] },
): Promise<Stored> {
  // All findings are repeats. The call that they repeat may have failed to hand them over.
  if (o.findings.length === 0) return { inspections: new Map(), othersPending: true };
  const texts = packTexts();
  const records = o.findings.map((finding) => toRecord(finding, texts));
  const { rows } = await tx.query<InsertedRow>({
    name: 'insert-inspections',
    text: INSERT,
    values: [
      o.shopId,
      o.kind,
      JSON.stringify(records),
      actorKindText.toText(o.actor.kind),
      o.actor.id,
      o.actor.name,
      OWN_HANDOVER_SECONDS,
      o.lineItemIds,
      texts.bytes(),
    ],
  });
  const { kind, id, name } = o.actor;
  const ids = new Map(rows.map((row) => [row.line_item_id, row]));
  const inspections = o.findings.flatMap((finding) => {
    const row = ids.get(finding.lineItemId);
    if (!row) return [];
    return { ...finding, id: row.id, inspectedAt: row.inspected_at, actor: { kind, id, name } };
  });
  return {
    inspections: new Map(inspections.map((one) => [one.lineItemId, one])),
    othersPending: rows.some((row) => row.others_pending),
  };
}

// All parts of the statement see the handovers and newest inspections as they were before it. It finds line items by
// ids in an array: PostgreSQL cannot estimate the number of rows in JSON, and would read the whole table for a join.
const INSERT = `
with given as (
  select * from jsonb_to_recordset($3::jsonb) as g (
    line_item_id bigint, outcome text, quantity integer, category text, subject text, title text, category_parent text,
    description integer[], return_processor text, note integer[], inspected_at timestamptz, images text[])
), i as (
  insert into inspections (shop_id, kind, line_item_id, outcome, quantity, category, subject, title,
    category_parent, description, return_processor, note, inspected_at, time_defaulted, images,
    actor_kind, actor_id, actor_name)
  select $1::bigint, $2::text, line_item_id, outcome, quantity, category, subject, title,
    category_parent, ${packedText('description', '$9::bytea')}, return_processor,
    ${packedText('note', '$9::bytea')},
    coalesce(inspected_at, date_trunc('milliseconds', now())), inspected_at is null, images,
    $4::text, $5::text, $6::text
  from given
  returning id, line_item_id, inspected_at
), moved as (
  update inspected_lines l set inspection_id = i.id from i
  where l.shop_id = $1 and l.kind = $2 and l.line_item_id = i.line_item_id
    and l.line_item_id = any ($8::bigint[])
), pending as (
  insert into handovers (shop_id, inspection_id, kind, line_item_id, due_at, lease_token, former_id)
  select $1, id, $2, line_item_id, now() + make_interval(secs => $7), (select nextval('lease_tokens')),
    (select l.inspection_id from inspected_lines l
      where l.shop_id = $1 and l.kind = $2 and l.line_item_id = i.line_item_id)
  from i
)
select i.id, i.line_item_id, i.inspected_at,
       (select exists (select from handovers h
                        where h.shop_id = $1 and h.kind = $2 and h.line_item_id = any ($8::bigint[]))
       ) as others_pending
  from i`;

function toRecord(finding: Finding, texts: PackedTexts) {
  return {
    line_item_id: String(finding.lineItemId),
    outcome: finding.outcome,
    quantity: finding.quantity,
    category: finding.category,
    subject: finding.subject,
    title: finding.title,
    category_parent: finding.categoryParent,
    description: texts.add(finding.description),
    return_processor: finding.returnProcessor,
    note: texts.add(finding.note),
    inspected_at: finding.inspectedAt,
    images: finding.images,
  };
}
