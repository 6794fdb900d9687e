import { createHash } from 'node:crypto';
import { type Timestamp, timestampDate } from '@bufbuild/protobuf/wkt';
import { Code } from '@connectrpc/connect';
import type { PortalCall } from './call.ts';
import { portalError } from './errors.ts';

// Checks of single fields of requests. Ids are decimal texts, because the page has no 64-bit numbers.

/** Largest id. */
const MAX_ID = BigInt(Number.MAX_SAFE_INTEGER);

/** An id; an id that no object can have is NOT_FOUND, like the id of another shop's object. */
export function idOf(text: string, what: string): bigint {
  const id = BigInt(text);
  if (id < 1n || id > MAX_ID) throw notFound(what);
  return id;
}

/** @param what the object with its article, such as `a return`. */
export function notFound(what: string): Error {
  return portalError(Code.NotFound, `This shop has no such ${what}.`);
}

/**
 * The id of a filter, as a service gets it: 0 for an absent one, which means all.
 *
 * @throws ConnectError INVALID_ARGUMENT for an id that no object can have. It must not select everything.
 */
export function filterId(field: string, text: string | undefined): bigint {
  if (text === undefined) return 0n;
  const id = BigInt(text);
  if (id < 1n || id > MAX_ID) throw invalid(field, 'must be the number of an object');
  return id;
}

const MAX_KEY = 200;

/**
 * The key for a service, from the key of the page. It includes the user, so that keys of two users, and keys of REST
 * and of assistants, never meet.
 *
 * @throws ConnectError INVALID_ARGUMENT when the key is empty or too long.
 */
export function keyOf({ session }: PortalCall, key: string): string {
  if (key === '' || [...key].length > MAX_KEY) {
    throw invalid('idempotency_key', `must have 1 to ${MAX_KEY} characters`);
  }
  return `portal-${createHash('sha256').update(`${session.userId}:${key}`).digest('hex')}`;
}

/** INVALID_ARGUMENT about one field. */
export function invalid(field: string, rule: string): Error {
  return portalError(Code.InvalidArgument, `${field} ${rule}.`, field);
}

const MAX_PAGE = 200;
const DEFAULT_PAGE = 50;

/** 1 to 200; 0 means 50. */
export function pageSizeOf(pageSize: number): number {
  if (pageSize === 0) return DEFAULT_PAGE;
  if (pageSize < 1 || pageSize > MAX_PAGE) throw invalid('page_size', `must be 1 to ${MAX_PAGE}`);
  return pageSize;
}

/** Returns the text as one of the words. @throws ConnectError INVALID_ARGUMENT for any other text. */
export function wordOf<const T extends readonly string[]>(
  field: string,
  text: string,
  words: T,
): T[number] {
  const found = words.find((word) => word === text);
  if (found === undefined) throw invalid(field, `must be one of ${words.join(', ')}`);
  return found;
}

/** As {@link wordOf}; undefined for an empty text. */
export function optionalWord<const T extends readonly string[]>(
  field: string,
  text: string,
  words: T,
): T[number] | undefined {
  return text === '' ? undefined : wordOf(field, text, words);
}

/** A time; undefined when absent. @throws ConnectError INVALID_ARGUMENT for a time outside of the years 2000 to 2999. */
export function timeOf(field: string, time: Timestamp | undefined): Date | undefined {
  if (!time) return undefined;
  const date = timestampDate(time);
  const year = date.getUTCFullYear();
  if (!(year >= 2_000 && year < 3_000)) throw invalid(field, 'must be a time of this millennium');
  return date;
}

/** @param max characters. */
export function textOf(field: string, text: string, max: number): string {
  if (text.trim() === '') throw invalid(field, 'is required');
  return upTo(field, text, max);
}

/** A text that may be empty. @param max characters. */
export function upTo(field: string, text: string, max: number): string {
  if ([...text].length > max) throw invalid(field, `must have up to ${max} characters`);
  return text;
}
