import { z } from 'zod';
import { MAX_ID } from '../../contract/limits.ts';
import { text as anyText, id } from '../../platform/input.ts';
import type { Field } from './table.ts';

/** Characters of a name. */
export const NAME_MAX = 191;
const MAX_QUANTITY = 1_000_000;

/** An id that may be left out: 0 means unknown. */
export const optionalId = z
  .bigint()
  .refine((value) => value >= 0n && value <= MAX_ID, 'must be an id up to 2^53-1');

/** Units of a line. */
export const quantity = z
  .int()
  .refine((value) => value >= 1 && value <= MAX_QUANTITY, `must be from 1 to ${MAX_QUANTITY}`);

export const countryCode = z
  .string()
  .regex(/^([A-Za-z]{2})?$/, 'must be two letters')
  .transform((value) => value.toUpperCase());

/** A text of at most `max` characters; empty means unknown. */
export function textField(max = NAME_MAX): Field<string> {
  return storedAsText(anyText(max));
}

/** Two letters of ISO 3166, stored in upper case; empty means unknown. */
export const countryField: Field<string> = storedAsText(countryCode);

/** An id that is required, and stored where it may not be null. */
export const idField: Field<bigint> = storedId(id);

/** An id that may be left out: stored as 0. */
export const optionalIdField: Field<bigint> = storedId(optionalId);

/** An id that may be left out: stored as null. */
export const nullableIdField: Field<bigint> = {
  input: optionalId,
  toColumn: (value) => (value === 0n ? null : value.toString()),
  fromText: (text) => BigInt(text ?? 0),
};

/** A whole number that `input` checks. */
export function numberField(input: z.ZodType<number>): Field<number> {
  return { input, toColumn: (value) => value, fromText: Number };
}

/**
 * A member of an enum.
 *
 * @param texts how the enum is written in the database.
 */
export function enumField<T extends number>(
  input: z.ZodType<T>,
  texts: { toText(value: T): string; fromText(text: string): T },
): Field<T> {
  return { input, toColumn: texts.toText, fromText: (text) => texts.fromText(text ?? '') };
}

/** A field that partners never see. */
export function internal<T>(field: Field<T>): Field<T> {
  return { ...field, isInternal: true };
}

function storedAsText(input: z.ZodType<string>): Field<string> {
  return { input, toColumn: (value) => value, fromText: (text) => text ?? '' };
}

function storedId(input: z.ZodType<bigint>): Field<bigint> {
  return { input, toColumn: String, fromText: (text) => BigInt(text ?? 0) };
}
