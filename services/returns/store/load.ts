import type { Label, Return } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import type { Queryable } from '../../platform/postgres.ts';
import { ANSWER_BYTES, fittingIds, fittingStatement, LIST_BYTES, STORED_BYTES } from './fitting.ts';
import { LARGE_BYTES } from './large.ts';
import { LINE_TEXTS, LISTED_LINE_TEXTS, linesOf } from './line.ts';
import type { LabelRow, ReturnRow } from './rows.ts';
import { LABEL_JSON, selectDetails, UPLOADS } from './select-details.ts';
import { toLabel, toReturn } from './to-message.ts';
import { mayHoldLarge, NeedsPermit } from './transaction.ts';

const SELECT = selectDetails(LINE_TEXTS, UPLOADS);
// Two statements, because PostgreSQL keeps the plan for one id, but plans again for every array of ids.
const LOAD_ONE = `${SELECT}r.id = $2`;
const LOAD_RETURNS = `${SELECT}r.id = any($2::bigint[])`;
// A return that is too large is not sent. Most of these are not even converted to JSON, which takes a third of a
// second.
const LOAD_ONE_WITHIN = `
with found as materialized (${LOAD_ONE} and ${STORED_BYTES} <= $3),
     sized as materialized (
       select octet_length(lines::text) + octet_length(uploads::text) > $3 as is_large from found
       union all
       select true from returns r where r.shop_id = $1 and r.id = $2 and ${STORED_BYTES} > $3)
select sized.is_large, fitting.* from sized left join found fitting on not sized.is_large`;
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
export interface AnswerSize {
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
