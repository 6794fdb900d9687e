import { characters } from '../../platform/text.ts';
import { CURSOR_MAX, DELIVERIES_PAGE_DEFAULT, DELIVERIES_PAGE_MAX } from '../limits.ts';
import { textError } from './fields.ts';

/** The value of a query parameter, or the rule that the query breaks. */
export type Parameter<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly field: string; readonly rule: string };

/** A page of a list. */
export interface Page {
  readonly limit: number;
  /** The cursor of the previous page; empty for the first page. */
  readonly cursor: string;
}

const LIMIT = /^[1-9]\d{0,2}$/;

/** Reads a parameter that may be given once, and not empty. The value is undefined when it is absent. */
export function textOf(query: URLSearchParams, name: string): Parameter<string | undefined> {
  const values = query.getAll(name);
  const [value] = values;
  if (values.length > 1) return broken(name, 'must be given once');
  if (value === '') return broken(name, 'must not be empty');
  const error = textError(value ?? '');
  return error === undefined ? { ok: true, value } : broken(name, error);
}

/** Reads `limit` and `cursor`. */
export function pageOf(query: URLSearchParams): Parameter<Page> {
  const [size, cursor] = [textOf(query, 'limit'), textOf(query, 'cursor')];
  if (!size.ok) return size;
  if (!cursor.ok) return cursor;
  const limit = limitOf(size.value);
  if (limit === undefined) {
    return broken('limit', `must be a whole number from 1 to ${DELIVERIES_PAGE_MAX}`);
  }
  if (characters(cursor.value ?? '') > CURSOR_MAX) {
    return broken('cursor', `must be at most ${CURSOR_MAX} characters`);
  }
  return { ok: true, value: { limit, cursor: cursor.value ?? '' } };
}

function limitOf(text: string | undefined): number | undefined {
  if (text === undefined) return DELIVERIES_PAGE_DEFAULT;
  if (!LIMIT.test(text)) return undefined;
  return Number(text) <= DELIVERIES_PAGE_MAX ? Number(text) : undefined;
}

function broken(field: string, rule: string): { ok: false; field: string; rule: string } {
  return { ok: false, field, rule };
}
