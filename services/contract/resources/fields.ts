import { z } from 'zod';
import { blank, cleanText, fits } from '../../platform/values/text.ts';
import { parseTime } from '../time.ts';

/**
 * The kinds of field in request bodies. Each has its own error message, which is the text after the field's name ("note
 * must be at most 512 characters").
 */

/** Marks a limit that the interface does not have. */
export const ownBound = { 'x-service-bound': true };

/** A text that is stored as sent. `max` is the number of Unicode characters. */
export function text(rule: { max: number; own?: boolean }) {
  return z
    .string({ error: typed('a string') })
    .superRefine((value, context) => {
      const error = textError(value) ?? (fits(value, rule.max) ? undefined : atMost(rule.max));
      if (error !== undefined) context.addIssue({ code: 'custom', message: error });
    })
    .meta({ maxLength: rule.max, ...(rule.own ? ownBound : {}) });
}

/** A required text. A text that is only white space counts as missing. */
export function requiredText(rule: { max?: number; own?: boolean }) {
  return z
    .string({ error: typed('a string') })
    .superRefine((value, context) => {
      const tooLong = rule.max !== undefined && !fits(value, rule.max);
      const error = blank(value)
        ? 'is required'
        : (textError(value) ?? (tooLong ? atMost(rule.max ?? 0) : undefined));
      if (error !== undefined) context.addIssue({ code: 'custom', message: error });
    })
    .meta({
      minLength: 1,
      pattern: '\\S',
      ...(rule.max === undefined ? {} : { maxLength: rule.max }),
      ...(rule.own ? ownBound : {}),
    });
}

/** One of a list of values. */
export function choice<const T extends readonly [string, ...string[]]>(values: T) {
  return z.enum(values, { error: typed(`one of ${values.join(', ')}`) });
}

/** An id: a whole number from 1 to 2^53 - 1. */
export function id() {
  const error = typed('an integer from 1 to 9007199254740991');
  return z
    .int({ error })
    .min(1, { error })
    .max(Number.MAX_SAFE_INTEGER, { error })
    .meta({ description: 'Identifier' });
}

const UNITS_MAX = 1_000_000;

/** A number of units of a line item. */
export function units(min: 0 | 1) {
  const error = typed(`an integer from ${min} to ${UNITS_MAX}`);
  return z.int({ error }).min(min, { error }).max(UNITS_MAX, { error }).meta(ownBound);
}

/** A time in the body. The parsed value is a `Date`. */
export function dateTime() {
  return z
    .string({ error: typed('an RFC 3339 date-time') })
    .transform((value, context) => {
      const parsed = parseTime(value);
      if (parsed) return parsed;
      context.addIssue({
        code: 'custom',
        message:
          'must be an RFC 3339 date-time with a UTC offset, such as 2026-07-01T12:00:00+00:00',
      });
      return z.NEVER;
    })
    .meta({ format: 'date-time' });
}

/** An amount as a decimal text. The service that knows its currency checks the number of decimals. */
export function decimal() {
  const error = 'must be a decimal number in a string, such as "12.50"';
  return z
    .string({ error: typed('a decimal number in a string, such as "12.50"') })
    .regex(/^\d{1,13}(?:\.\d{1,8})?$/, { error });
}

export function boolean() {
  return z.boolean({ error: typed('true or false') });
}

/** The error message for a value of the wrong type. A missing or null value gets "is required". */
export function typed(what: string): (issue: { input: unknown }) => string {
  return ({ input }) => (input === undefined || input === null ? 'is required' : `must be ${what}`);
}

/** Returns what is wrong with the characters of a text; undefined when all are valid. */
export function textError(value: string): string | undefined {
  return cleanText(value) ? undefined : 'must not contain NUL or unpaired surrogate characters';
}

function atMost(max: number): string {
  return `must be at most ${max} characters`;
}
