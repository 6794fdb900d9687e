import { hash } from 'node:crypto';
import { invalidField } from './errors.ts';

/** The filters and the order of a list, as JSON values, dates and ids. The size of a page is not one of them. */
export type ListFilters = Readonly<Record<string, unknown>>;

const MARK_LENGTH = 11;
const MARKED = new RegExp(`^(.*)\\.([\\w-]{${MARK_LENGTH}})$`);

/**
 * Adds a mark of the list to a cursor, so that the cursor cannot continue another list. In another list its place would
 * also be valid, and the caller would miss everything before it.
 *
 * @param place where the next page begins, without a dot; empty on the last page, which has no cursor.
 */
export function bindCursor(place: string, filters: ListFilters): string {
  return place === '' ? '' : `${place}.${markOf(filters)}`;
}

/**
 * Returns the place in a cursor; empty for the empty cursor, with which a list begins.
 *
 * @throws DomainError INVALID_ARGUMENT for the cursor of a list with other filters or another order, and for a text that
 *   is no cursor.
 */
export function placeInCursor(cursor: string, filters: ListFilters): string {
  const [, place, mark] = MARKED.exec(cursor) ?? [];
  if (cursor === '') return '';
  if (place === undefined)
    throw invalidField('cursor', 'must be a cursor returned by this service');
  if (mark === markOf(filters)) return place;
  throw invalidField(
    'cursor',
    'belongs to a list with other filters or another order: repeat those, or start without cursor',
  );
}

/** Computes the mark. Filters that are not set are not in it, so that a later release may add filters. */
function markOf(filters: ListFilters): string {
  const parts = Object.entries(filters)
    .map(([name, value]): [string, unknown] => [name, comparable(value)])
    .filter(([, value]) => !isEmpty(value))
    .sort(([a], [b]) => (a < b ? -1 : 1));
  return hash('sha256', JSON.stringify(parts), 'base64url').slice(0, MARK_LENGTH);
}

/** Returns the same value for lists with the same entries, in any order and with repeated entries. */
function comparable(value: unknown): unknown {
  if (Array.isArray(value)) return [...new Set(value.map(String))].sort();
  return typeof value === 'bigint' ? String(value) : value;
}

function isEmpty(value: unknown): boolean {
  if (Array.isArray(value)) return value.length === 0;
  return (
    value === undefined ||
    value === null ||
    value === '' ||
    value === '0' ||
    value === false ||
    value === 0
  );
}
