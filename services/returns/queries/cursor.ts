import { z } from 'zod';
import { SearchReturnsRequest_Sort as Sort } from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { raw, type Sql, sql } from '../../platform/postgres/sql.ts';
import { invalidField } from '../../platform/values/errors.ts';
import { bindCursor, type ListFilters, placeInCursor } from '../../platform/values/list-cursor.ts';
import { jsonOf } from '../../platform/values/text.ts';

const MAX_PAGE = 200;
const DEFAULT_PAGE = 50;

/** The number of rows on a page: 1 to 200; 0 means 50. */
export const pageSize = z
  .int()
  .refine((value) => value >= 0 && value <= MAX_PAGE, `must be from 1 to ${MAX_PAGE}`)
  .transform((value) => value || DEFAULT_PAGE);

/** Returns a cursor for the position of the last row of a page. Callers must not interpret it. */
export function encodeCursor(parts: readonly string[]): string {
  return Buffer.from(JSON.stringify(parts)).toString('base64url');
}

/**
 * Parses a cursor. Undefined when it is empty, which means the first page.
 *
 * @throws DomainError INVALID_ARGUMENT for a text that {@link encodeCursor} did not return.
 */
export function decodeCursor<S extends z.ZodType>(
  cursor: string,
  parts: S,
): z.output<S> | undefined {
  if (cursor === '') return undefined;
  const result = parts.safeParse(jsonOf(Buffer.from(cursor, 'base64url').toString('utf8')));
  if (!result.success) throw invalidField('cursor', 'must be a cursor returned by this service');
  return result.data;
}

// The cursor of a sorted list. It has the place of the last return of a page.

const milliseconds = z.string().regex(/^-?\d{1,15}$/);
const id = z.string().regex(/^\d{1,16}$/);
const placeParts = z.tuple([milliseconds, id]);

/**
 * Returns the place in a cursor; undefined when the cursor is empty.
 *
 * @param filters the filters of the request. A cursor of other filters, or of another order, is invalid.
 * @throws DomainError INVALID_ARGUMENT.
 */
export function placeIn(
  cursor: string,
  { sorting, filters }: { readonly sorting: Sorting; readonly filters: ListFilters },
): Place | undefined {
  const place = placeInCursor(cursor, { ...filters, order: nameOf(sorting) });
  const parts = decodeCursor(place, placeParts);
  return parts && { at: new Date(Number(parts[0])), id: BigInt(parts[1]) };
}

/** Returns the cursor for the page after a return; empty when there is no return. */
export function cursorBehind(
  last: Place | undefined,
  { sorting, filters }: { readonly sorting: Sorting; readonly filters: ListFilters },
): string {
  if (!last) return '';
  const place = encodeCursor([`${last.at.getTime()}`, `${last.id}`]);
  return bindCursor(place, { ...filters, order: nameOf(sorting) });
}

function nameOf({ column, direction }: Sorting): string {
  return `${column} ${direction}`;
}

/** How a list of returns is sorted: by a time, and by id where the times are equal. */
export interface Sorting {
  readonly column: 'created_at' | 'updated_at';
  readonly direction: 'asc' | 'desc';
}

/** The place of a return in a sorted list. */
export interface Place {
  readonly at: Date;
  readonly id: bigint;
}

export const NEWEST_FIRST: Sorting = { column: 'created_at', direction: 'desc' };
const SORTINGS: ReadonlyMap<Sort, Sorting> = new Map([
  [Sort.CREATED_DESC, NEWEST_FIRST],
  [Sort.CREATED_ASC, { column: 'created_at', direction: 'asc' }],
  [Sort.UPDATED_DESC, { column: 'updated_at', direction: 'desc' }],
  [Sort.UPDATED_ASC, { column: 'updated_at', direction: 'asc' }],
]);

/** Returns the order that a request asks for; newest first when it asks for none. */
export function sortingOf(sort: Sort): Sorting {
  return SORTINGS.get(sort) ?? NEWEST_FIRST;
}

/** SQL: `order by` for rows that have the columns `at` and `id`. */
export function orderBy(alias: string, at: string, { direction }: Sorting): Sql {
  return raw(`order by ${alias}.${at} ${direction}, ${alias}.id ${direction}`);
}

/** SQL condition: the return `r` is after a place. Empty without a place. */
export function behind(place: Place | undefined, { column, direction }: Sorting): Sql {
  if (!place) return sql``;
  const than = raw(direction === 'desc' ? '<' : '>');
  return sql`and (r.${raw(column)}, r.id) ${than} (${place.at}::timestamptz, ${place.id}::bigint)`;
}
