import { SearchReturnsRequest_Sort as Sort } from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { raw, type Sql, sql } from '../../platform/sql.ts';

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
