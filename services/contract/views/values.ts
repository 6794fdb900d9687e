import type { DescEnum } from '@bufbuild/protobuf';
import { type Timestamp, timestampDate } from '@bufbuild/protobuf/wkt';
import { code } from 'currency-codes';
import { isoTime, plainTime } from '../time.ts';

// Converts single values of messages to values of the public interface.

/** An id as a JSON number; 0 means unknown. Stored ids never exceed 2^53 - 1. */
export function idNumber(id: bigint): number | null {
  return id === 0n ? null : Number(id);
}

/** An id that is a string in the interface; 0 means unknown. */
export function idText(id: bigint): string | null {
  return id === 0n ? null : id.toString();
}

/** A text; empty or absent means unknown. */
export function textOrNull(text: string | undefined): string | null {
  return text === undefined || text === '' ? null : text;
}

/** `YYYY-MM-DDThh:mm:ss+00:00`, or null. */
export function iso(time: Timestamp | undefined): string | null {
  return time ? isoTime(timestampDate(time)) : null;
}

/** `YYYY-MM-DDThh:mm:ss+00:00`. Throws when the time is missing, which is a bug. @param field the object, for the error. */
export function requiredIso(time: Timestamp | undefined, field: string): string {
  if (!time) throw new Error(`${field} without its time`);
  return isoTime(timestampDate(time));
}

/** `YYYY-MM-DD hh:mm:ss`, or null. */
export function plain(time: Timestamp | undefined): string | null {
  return time ? plainTime(timestampDate(time)) : null;
}

/** Zero with the currency's ISO 4217 decimals; two for an unknown code. */
export function zero(currency: string): string {
  const digits = code(currency)?.digits ?? 2;
  return digits === 0 ? '0' : `0.${'0'.repeat(digits)}`;
}

/**
 * The public text of an enum value: its name in lower case (`RETURN_STATE_OPEN` is `open`). null for
 * unspecified and for unknown values. `words` narrows the type to the documented texts.
 */
export function word<const T extends readonly string[]>(
  desc: DescEnum,
  value: number,
  words: T,
): T[number] | null {
  const name = desc.value[value]?.localName.toLowerCase();
  return words.find((text) => text.replace('+', '_') === name) ?? null;
}
