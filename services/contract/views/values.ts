import type { DescEnum } from '@bufbuild/protobuf';
import { type Timestamp, timestampDate } from '@bufbuild/protobuf/wkt';
import { decimalsOf } from '../../platform/values/currencies.ts';
import { isoTime, plainTime } from '../time.ts';

// Converts single values of messages to values of the public interface.

/** An id as a JSON number; null for 0, which means unknown. Stored ids never exceed 2^53 - 1. */
export function idNumber(id: bigint): number | null {
  return id === 0n ? null : Number(id);
}

/** An id that the interface writes as a string; null for 0, which means unknown. */
export function idText(id: bigint): string | null {
  return id === 0n ? null : id.toString();
}

/** A text; null for an empty or absent one, which means unknown. */
export function textOrNull(text: string | undefined): string | null {
  return text === undefined || text === '' ? null : text;
}

/** A time as `YYYY-MM-DDThh:mm:ss+00:00`; null when it is absent. */
export function iso(time: Timestamp | undefined): string | null {
  return time ? isoTime(timestampDate(time)) : null;
}

/**
 * A time as `YYYY-MM-DDThh:mm:ss+00:00`. Throws when it is absent, which is a bug. @param field name of the object in
 * the error.
 */
export function requiredIso(time: Timestamp | undefined, field: string): string {
  if (!time) throw new Error(`${field} without its time`);
  return isoTime(timestampDate(time));
}

/** A time as `YYYY-MM-DD hh:mm:ss`; null when it is absent. */
export function plain(time: Timestamp | undefined): string | null {
  return time ? plainTime(timestampDate(time)) : null;
}

/** Zero with the ISO 4217 decimals of the currency. An unknown currency has two. */
export function zero(currency: string): string {
  const digits = decimalsOf(currency) ?? 2;
  return digits === 0 ? '0' : `0.${'0'.repeat(digits)}`;
}

/**
 * The public text of an enum value: its name in lower case (`RETURN_STATE_OPEN` is `open`). Null for an unspecified or
 * unknown value. `words` narrows the type to the documented texts.
 */
export function word<const T extends readonly string[]>(
  desc: DescEnum,
  value: number,
  words: T,
): T[number] | null {
  const name = desc.value[value]?.localName.toLowerCase();
  return words.find((text) => text.replace('+', '_') === name) ?? null;
}
