import type { Label, Return } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { LONG_TEXT_BYTES } from '../../contract/limits.ts';
import { onlyRow } from '../../platform/postgres/only-row.ts';
import type { Queryable } from '../../platform/postgres/postgres.ts';
import { amountColumnsOf } from '../../platform/values/money.ts';
import { RETURN_FIELDS } from '../fields.ts';
import { EXCHANGE_AMOUNTS, RETURN_AMOUNTS } from '../money/totals.ts';
import type { LeftOut } from './details-size.ts';
import {
  ANSWER_BYTES,
  fittingIds,
  fittingStatement,
  LIST_BYTES,
  LONG_PARTS,
  STORED_BYTES,
} from './fitting.ts';
import { LARGE_BYTES } from './large.ts';
import type { LabelRow, ReturnRow } from './rows.ts';
import { forTexts, hashText } from './snapshot-store.ts';
import {
  LINE_TEXTS,
  LISTED_LINE_TEXTS,
  linesOf,
  lineTextsWith,
  toLabel,
  toReturn,
} from './to-message.ts';
import { mayHoldLarge, NeedsPermit } from './transaction.ts';

const exchangeAmounts = amountColumnsOf(EXCHANGE_AMOUNTS)
  .map((name) => `'${name}', e.${name}::text`)
  .join(', ');
const COLUMNS = [...RETURN_FIELDS.columns, ...amountColumnsOf(RETURN_AMOUNTS)]
  .map((name) => `r.${name}`)
  .join(', ');

/** SQL for a label `b` as JSON. */
const LABEL_JSON = `json_build_object('id', b.id, 'return_id', b.return_id,
  'carrier', b.carrier, 'tracking_number', b.tracking_number, 'url', b.url, 'rate', b.rate::text,
  'status', b.status, 'line_item_ids', b.line_item_ids, 'created_at', b.created_at,
  'updated_at', b.updated_at)`;

/** SQL for the uploads of return `r` as JSON. */
const UPLOADS = `array_to_json(array(
         select json_build_object('id', u.id, 'line_item_id', u.line_item_id, 'kind', u.kind,
           'source', u.source, 'media_type', u.media_type, 'url', u.url, 'created_at', u.created_at)
         from uploads u where u.shop_id = r.shop_id and u.return_id = r.id
         order by u.id))`;

/**
 * The beginning of a statement that reads rows of the type `ReturnRow` of the shop $1. A condition on `r` must follow.
 *
 * Each list is one JSON text, because the driver parses arrays letter by letter.
 *
 * @param lineTexts SQL for each line item, such as `LINE_TEXTS`.
 * @param uploads SQL for the uploads, such as `UPLOADS`.
 */
const selectDetails = (lineTexts: string, uploads: string) => `
select r.shop_id, r.id, r.revision, r.created_at, r.updated_at, r.edited_at, r.archived_at,
       r.order_id, r.order_name, r.order_number, r.provider_order_number, o.provider_order_id,
       r.customer_email, r.customer_first_name, r.customer_last_name, r.customer_address,
       r.state, r.currency, r.presentment_currency, r.flag_reasons, r.processing, r.unexpected_quantity,
       r.policy_version, r.submitter,
       ${COLUMNS},
       array_to_json(array(
         select ${lineTexts}
         from return_lines l
         left join line_conditions c on c.shop_id = l.shop_id and c.line_item_id = l.id
         left join line_dispositions d on d.shop_id = l.shop_id and d.line_item_id = l.id
         where l.shop_id = r.shop_id and l.return_id = r.id and l.removed_at is null
         order by l.position)) as lines,
       ${uploads} as uploads,
       array_to_json(array(
         select json_build_object('id', e.id, 'product_id', e.product_id,
           'variant_id', e.variant_id, 'sku', e.sku, 'title', e.title, ${exchangeAmounts},
           'type', e.type, 'out_of_stock', e.out_of_stock,
           'out_of_stock_resolution', e.out_of_stock_resolution)
         from exchanges e where e.shop_id = r.shop_id and e.return_id = r.id
         order by e.position)) as exchanges,
       array_to_json(array(
         select json_build_object('kind', p.kind, 'provider_order_id', p.provider_order_id,
           'name', p.name, 'value', p.value::text, 'currency', p.currency)
         from provider_orders p where p.shop_id = r.shop_id and p.return_id = r.id
         order by p.created_at, p.provider_order_id)) as provider_orders,
       array_to_json(array(
         select json_build_object('id', f.id, 'gateway', f.gateway, 'provider', f.provider,
           'provider_refund_id', f.provider_refund_id, 'value', f.value::text,
           'currency', f.currency, 'provider_created_at', f.provider_created_at,
           'created_at', f.created_at, 'updated_at', f.updated_at)
         from refunds f where f.shop_id = r.shop_id and f.return_id = r.id
         order by f.id)) as refunds,
       array_to_json(array(
         select ${LABEL_JSON}
         from labels b where b.shop_id = r.shop_id and b.return_id = r.id
         order by b.created_at, b.id)) as labels
  from returns r
  join orders o on o.shop_id = r.shop_id and o.id = r.order_id
 where r.shop_id = $1 and `;

const SELECT = selectDetails(LINE_TEXTS, UPLOADS);
// Two statements, because PostgreSQL keeps the plan for one id, but plans again for every array of ids.
const LOAD_ONE = `${SELECT}r.id = $2`;
const LOAD_RETURNS = `${SELECT}r.id = any($2::bigint[])`;
// A return that is too large is not sent. Most of these are not even converted to JSON, which takes a third of a
// second.
const LOAD_ONE_WITHIN = `
with stored as materialized (
       select ${STORED_BYTES} <= $3 as fits from returns r where r.shop_id = $1 and r.id = $2),
     found as materialized (${LOAD_ONE} and (select fits from stored)),
     sized as materialized (
       select not fits or (select octet_length(lines::text) + octet_length(uploads::text) from found) > $3 as is_large
         from stored)
select sized.is_large, fitting.* from sized left join found fitting on not sized.is_large`;
// PostgreSQL cannot see the array in the subquery. Otherwise it plans again for every array of ids.
const LOAD_SMALL = `
with owned as materialized (
       select distinct shop_id, return_id as id from return_lines
        where shop_id = $1 and id = any((select $2::bigint[])::bigint[])),
     stored as materialized (
       select sum(size.bytes) <= $3 and max(size.long_bytes) <= $4 as fits from owned r
        cross join lateral (
          select coalesce(sum(bytes), 0) as bytes, coalesce(sum(long_bytes), 0) as long_bytes from ${LONG_PARTS}) size),
     found as materialized (${SELECT}r.id = any(array(select id from owned)) and (select fits from stored))
select * from found
 where (select sum(octet_length(lines::text) + octet_length(uploads::text)) from found) <= $3
 order by id`;
const LOAD_FITTING = fittingStatement(`${LOAD_RETURNS} and ($4 or ${STORED_BYTES} <= $3)`);
const LOAD_LISTED = fittingStatement(
  `${selectDetails(LISTED_LINE_TEXTS, `'[]'::json`)}r.id = any($2::bigint[])`,
);

/**
 * Reads whole returns with their derived amounts, in the order of `ids`, with one statement. Ids that do not exist or
 * belong to another shop are left out.
 */
export async function loadReturns(
  db: Queryable,
  shopId: bigint,
  ids: readonly bigint[],
): Promise<Return[]> {
  if (ids.length === 0) return [];
  const { rows } = await db.query<ReturnRow>(
    ids.length === 1
      ? { name: 'load-one-return', text: LOAD_ONE, values: [shopId, ids[0]] }
      : { name: 'load-returns', text: LOAD_RETURNS, values: [shopId, ids] },
  );
  const byId = new Map(rows.map((row) => [row.id, row]));
  return ids.flatMap((id) => {
    const row = byId.get(id);
    return row ? [returnOf(row)] : [];
  });
}

/**
 * Does the same as {@link loadReturns}. But returns `large` when the line items and uploads of all returns together, as
 * JSON, are larger than `maxBytes`. With several ids, also returns `large` when some of them do not exist.
 */
export async function loadReturnsWithin(
  db: Queryable,
  shopId: bigint,
  o: { readonly ids: readonly bigint[]; readonly maxBytes: number },
): Promise<readonly Return[] | 'large'> {
  const [id, ...others] = new Set(o.ids);
  if (id === undefined) return [];
  if (others.length > 0) {
    const found = await loadFitting(db, shopId, o.ids, { maxBytes: o.maxBytes });
    return found.length === others.length + 1 ? found : 'large';
  }
  const found = await loadReturnWithin(db, shopId, { id, maxBytes: o.maxBytes });
  if (found === 'large') return found;
  return found ? [found] : [];
}

/** Limits the size of one response. */
interface AnswerSize {
  /** Maximum size of line items and uploads, as JSON; 8 MiB by default. Bytes. */
  readonly maxBytes?: number;
  /**
   * Whether the first return is always returned, of any size. So a caller that requests the others again gets every
   * return in the end.
   */
  readonly keepsFirst?: boolean;
}

/**
 * Reads whole returns in the order of `ids`, each once. Stops before the first that does not fit. Ids that do not exist
 * or belong to another shop are left out.
 */
export async function loadFitting(
  db: Queryable,
  shopId: bigint,
  ids: readonly bigint[],
  { maxBytes = ANSWER_BYTES, keepsFirst = false }: AnswerSize = {},
): Promise<Return[]> {
  const candidates = keepsFirst ? await fittingIds(db, shopId, ids, maxBytes) : ids;
  // A single return is returned whatever its size is, so the database need not measure it. For one id, `loadReturns`
  // also has a statement of its own.
  if (candidates.length === 0 || (candidates.length === 1 && keepsFirst)) {
    return loadReturns(db, shopId, candidates);
  }
  const { rows } = await db.query<ReturnRow>({
    name: 'load-fitting',
    text: LOAD_FITTING,
    values: [shopId, candidates, maxBytes, keepsFirst],
  });
  return rows.map(returnOf);
}

/**
 * Reads returns for a list, in the order of `ids`: without notes, descriptions and images of inspections, and without
 * uploads. Always returns the first return, and stops before the first return that does not fit. Ids that do not exist
 * or belong to another shop are left out.
 */
export async function loadListed(
  db: Queryable,
  shopId: bigint,
  ids: readonly bigint[],
): Promise<Return[]> {
  if (ids.length === 0) return [];
  const values = [shopId, ids, LIST_BYTES, true];
  const { rows } = await db.query<ReturnRow>({ name: 'load-listed', text: LOAD_LISTED, values });
  return rows.map(returnOf);
}

/**
 * Reads the returns of these line items, in the order of their ids. Reads none of them when they are large together
 * ({@link LARGE_BYTES}), or when one has more than `longTextBytes` of long texts.
 */
export async function loadSmall(
  db: Queryable,
  shopId: bigint,
  o: { readonly lineItemIds: readonly bigint[]; readonly longTextBytes: number },
): Promise<readonly Return[]> {
  const { rows } = await db.query<ReturnRow>({
    name: 'load-small',
    text: LOAD_SMALL,
    values: [shopId, o.lineItemIds, LARGE_BYTES, o.longTextBytes],
  });
  return rows.map(returnOf);
}

/** Reads returns in the order of `ids`, in a transaction of {@link changing}. */
export async function loadForChange(
  tx: Queryable,
  shopId: bigint,
  ids: readonly bigint[],
): Promise<readonly Return[]> {
  if (mayHoldLarge(tx)) return loadReturns(tx, shopId, ids);
  const found = await loadReturnsWithin(tx, shopId, { ids, maxBytes: LARGE_BYTES });
  if (found === 'large') throw new NeedsPermit();
  return found;
}

/** Reads one whole return. Undefined when the shop has none with this id. */
export async function loadReturn(
  db: Queryable,
  shopId: bigint,
  id: bigint,
): Promise<Return | undefined> {
  const [found] = await loadReturns(db, shopId, [id]);
  return found;
}

/**
 * Reads one whole return. Returns `large` when its line items and uploads, as JSON, are larger than `maxBytes`.
 * Undefined when the shop has none with this id.
 */
export async function loadReturnWithin(
  db: Queryable,
  shopId: bigint,
  { id, maxBytes }: { readonly id: bigint; readonly maxBytes: number },
): Promise<Return | 'large' | undefined> {
  const { rows } = await db.query<ReturnRow & { readonly is_large: boolean }>({
    name: 'load-one-return-within',
    text: LOAD_ONE_WITHIN,
    values: [shopId, id, maxBytes],
  });
  const [row] = rows;
  if (!row) return undefined;
  return row.is_large ? 'large' : returnOf(row);
}

function returnOf(row: ReturnRow): Return {
  return toReturn(row, linesOf(row));
}

/** Reads one label. Undefined when the shop has none with this id. */
export async function loadLabel(
  db: Queryable,
  shopId: bigint,
  id: bigint,
): Promise<Label | undefined> {
  const { rows } = await db.query<{ label: LabelRow; currency: string }>(
    `select ${LABEL_JSON} as label, r.currency
       from labels b
       join returns r on r.shop_id = b.shop_id and r.id = b.return_id
      where b.shop_id = $1 and b.id = $2`,
    [shopId, id],
  );
  return rows[0] && toLabel(rows[0].label, rows[0].currency);
}

/** A return that has hashes in place of its long texts, like a stored snapshot. */
export interface HashedReturn {
  readonly of: Return;
  /** The size of the long texts that the return lacks. */
  readonly leftOut: LeftOut;
}

const isLong = (column: string) => `octet_length(${column}) > ${LONG_TEXT_BYTES}`;
/**
 * The first letter says whether a text or its hash follows. Without it, a text that looks like a hash would be taken
 * for one.
 */
const TEXT = 't';
const hashOrText = (column: string) => `
  case when ${isLong(column)} then 'h' || encode(sha256(convert_to(${column}, 'UTF8')), 'hex')
       else '${TEXT}' || ${column} end`;

/** SQL for the long texts of the lines of return `r`. */
const longTexts = (what: string) => `
  select ${what}
    from return_lines l
    left join line_conditions c on c.shop_id = l.shop_id and c.line_item_id = l.id
    left join line_dispositions d on d.shop_id = l.shop_id and d.line_item_id = l.id
   cross join lateral (values (c.note), (c.description), (d.note)) long (text)
   where l.shop_id = r.shop_id and l.return_id = r.id and l.removed_at is null
     and ${isLong('long.text')}`;

const LOAD_HASHED = `
select r.*, long_texts.*
  from (${selectDetails(lineTextsWith(hashOrText), UPLOADS)}r.id = any($2::bigint[])) r
 cross join lateral (${longTexts(`
   count(*)::int as hashes, coalesce(sum(octet_length(long.text)), 0)::int as bytes,
   coalesce(sum(octet_length(to_json(long.text)::text)), 0)::int as json_bytes`)}) long_texts
 order by r.id`;

interface HashedRow extends ReturnRow {
  readonly hashes: number;
  readonly bytes: number;
  readonly json_bytes: number;
}

/** The size of a hash as JSON. Bytes. */
const HASH_JSON_BYTES = Buffer.byteLength(JSON.stringify(hashText(Buffer.alloc(32))));

/**
 * Reads returns by id, with hashes in place of their long texts. The database computes the hashes. When a line changes,
 * sending and encoding the texts would be most of the cost.
 */
export async function loadHashed(
  db: Queryable,
  shopId: bigint,
  ids: readonly bigint[],
): Promise<HashedReturn[]> {
  if (ids.length === 0) return [];
  const { rows } = await db.query<HashedRow>({
    name: 'load-hashed',
    text: LOAD_HASHED,
    values: [shopId, ids],
  });
  return rows.map((row) => {
    const of = toReturn(row, linesOf(row));
    forTexts(of, hashedText);
    const jsonBytes = row.json_bytes - row.hashes * HASH_JSON_BYTES;
    return { of, leftOut: { bytes: row.bytes, jsonBytes } };
  });
}

function hashedText(text: string): string {
  if (text === '' || text.startsWith(TEXT)) return text.slice(TEXT.length);
  return hashText(Buffer.from(text.slice(1), 'hex'));
}

/** Returns those of these ids whose returns have more than `bytes` of long texts. */
export async function idsOfLongTexts(
  db: Queryable,
  shopId: bigint,
  o: { readonly ids: readonly bigint[]; readonly bytes: number },
): Promise<bigint[]> {
  const { rows } = await db.query<{ id: bigint }>({
    name: 'ids-of-long-texts',
    text: `select r.id from returns r
            where r.shop_id = $1 and r.id = any($2::bigint[])
              and (select sum(long_bytes) from ${LONG_PARTS}) > $3`,
    values: [shopId, o.ids, o.bytes],
  });
  return rows.map((row) => row.id);
}

/** Returns the size of the other large parts: links to images of inspections, and uploads. */
export async function bytesOfImages(
  db: Queryable,
  shopId: bigint,
  ids: readonly bigint[],
): Promise<number> {
  const result = await db.query<{ bytes: number }>({
    name: 'bytes-of-images',
    text: `select coalesce(sum(part.bytes), 0)::int as bytes from (
             select coalesce(octet_length(array_to_string(c.images, '')), 0)
                    + coalesce(octet_length(array_to_string(d.images, '')), 0) as bytes
               from return_lines l
               left join line_conditions c on c.shop_id = l.shop_id and c.line_item_id = l.id
               left join line_dispositions d on d.shop_id = l.shop_id and d.line_item_id = l.id
              where l.shop_id = $1 and l.return_id = any($2::bigint[]) and l.removed_at is null
             union all
             select octet_length(url) from uploads
              where shop_id = $1 and return_id = any($2::bigint[])) part`,
    values: [shopId, ids],
  });
  return onlyRow(result).bytes;
}
