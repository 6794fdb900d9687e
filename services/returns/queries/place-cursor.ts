import { z } from 'zod';
import { bindCursor, type ListFilters, placeInCursor } from '../../platform/list-cursor.ts';
import { decodeCursor, encodeCursor } from './cursor.ts';
import type { Place, Sorting } from './sorting.ts';

// The cursor of a sorted list. It has the place of the last return of a page.

const USUAL = 'created_at desc';

const milliseconds = z.string().regex(/^-?\d{1,15}$/);
const id = z.string().regex(/^\d{1,16}$/);

/**
 * Returns the place in a cursor; undefined when the cursor is empty. Cursors of the usual order, newest first, do not
 * contain their order.
 *
 * @param filters the filters of the request. A cursor of other filters, or of another order, is invalid.
 * @throws DomainError INVALID_ARGUMENT.
 */
export function placeIn(
  cursor: string,
  { sorting, filters }: { readonly sorting: Sorting; readonly filters: ListFilters },
): Place | undefined {
  const name = nameOf(sorting);
  const parts = decodeCursor(
    placeInCursor(cursor, { ...filters, order: name }),
    name === USUAL ? z.tuple([milliseconds, id]) : z.tuple([milliseconds, id, z.literal(name)]),
  );
  return parts && { at: new Date(Number(parts[0])), id: BigInt(parts[1]) };
}

/** Returns the cursor for the page after a return; empty when there is no return. */
export function cursorBehind(
  last: Place | undefined,
  { sorting, filters }: { readonly sorting: Sorting; readonly filters: ListFilters },
): string {
  if (!last) return '';
  const name = nameOf(sorting);
  const parts = [`${last.at.getTime()}`, `${last.id}`];
  const place = encodeCursor(name === USUAL ? parts : [...parts, name]);
  return bindCursor(place, { ...filters, order: name });
}

function nameOf({ column, direction }: Sorting): string {
  return `${column} ${direction}`;
}
