import type { Return } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { LONG_TEXT_BYTES } from '../../contract/limits.ts';
import { onlyRow } from '../../platform/only-row.ts';
import type { Queryable } from '../../platform/postgres.ts';
import type { LeftOut } from './details-size.ts';
import { linesOf, lineTextsWith } from './line.ts';
import type { ReturnRow } from './rows.ts';
import { selectDetails, UPLOADS } from './select-details.ts';
import { forTexts, hashText } from './snapshot-store.ts';
import { toReturn } from './to-message.ts';

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

/** Returns the ids of those returns of these line items that have more than `bytes` of long texts. */
export async function idsOfLongTexts(
  db: Queryable,
  shopId: bigint,
  o: { readonly lineItemIds: readonly bigint[]; readonly bytes: number },
): Promise<bigint[]> {
  const { rows } = await db.query<{ id: bigint }>({
    name: 'ids-of-long-texts',
    text: `select r.id from returns r
            where r.shop_id = $1
              and r.id = any(array(select return_id from return_lines where shop_id = $1 and id = any($2::bigint[])))
              and (${longTexts('coalesce(sum(octet_length(long.text)), 0)')}) > $3`,
    values: [shopId, o.lineItemIds, o.bytes],
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
