import type { GenEnum } from '@bufbuild/protobuf/codegenv2';
import { z } from 'zod';
import type { Amount } from '../../proto/gen/rms/common/v1/money_pb.ts';
import {
  LineOutcome,
  LineOutcomeSchema,
  Outcome,
  OutcomeSchema,
  ReturnMethod,
  ReturnMethodSchema,
  ReturnType,
  ReturnTypeSchema,
  UpsellPayment,
  UpsellPaymentSchema,
} from '../../proto/gen/rms/returns/v1/return_pb.ts';
import { SHORT_TEXT_MAX } from '../contract/limits.ts';
import { enumText } from '../platform/values/enum-text.ts';
import { invalidField } from '../platform/values/errors.ts';
import { MAX_ID } from '../platform/values/ids.ts';
import { text as anyText, id } from '../platform/values/input.ts';
import { snakeCase, URL_MAX } from '../platform/values/text.ts';

/** One field of the details: how its value is checked, stored and read. */
interface Field<T> {
  /** Checks the value in a submission. */
  readonly input: z.ZodType<T>;
  /** Returns the value for its column, as JSON. */
  toColumn(value: T): string | number | null;
  /** Reads the value from its column, whose value was cast to text. */
  fromText(text: string | null): T;
  /** True for a field that partners never see. */
  readonly isInternal?: boolean;
}

type Fields = Readonly<Record<string, Field<unknown>>>;

/** The values of all fields of a table, by name. */
type ValuesOf<F extends Fields> = {
  readonly [K in keyof F]: F[K] extends Field<infer T> ? T : never;
};

/**
 * A table of fields that have the same name in a submission, a row and a message: `hsCode` is the column `hs_code`. A
 * field in such a table is accepted, stored and returned without any other code.
 */
interface FieldTable<F extends Fields> {
  /** The names of the fields that partners see. */
  readonly publicNames: readonly string[];
  /** The columns, in the order in which {@link FieldTable.read} reads them. */
  readonly columns: readonly string[];
  /** The checks of a submission, in the form of a zod object. */
  readonly inputs: { readonly [K in keyof F]: F[K]['input'] };
  /** Returns the values as columns, for `jsonb_populate_recordset`. */
  toColumns(values: ValuesOf<F>): Record<string, string | number | null>;
  /** Reads the values. @param textOf returns the text of a column. It is called for each column, in their order. */
  read(textOf: (column: string) => string | null): ValuesOf<F>;
}

function fieldTable<F extends Fields>(fields: F): FieldTable<F> {
  const all = Object.entries(fields).map(([name, field]) => {
    return { name: name as keyof F & string, column: snakeCase(name), field };
  });
  const inputs = Object.fromEntries(all.map(({ name, field }) => [name, field.input]));
  return {
    publicNames: all.flatMap(({ name, field }) => (field.isInternal ? [] : name)),
    columns: all.map(({ column }) => column),
    // `fromEntries` and the loops below lose the type of the keys.
    inputs: inputs as FieldTable<F>['inputs'],
    toColumns(values) {
      return Object.fromEntries(
        all.map(({ name, column, field }) => [column, field.toColumn(values[name])]),
      );
    },
    read(textOf) {
      const values: Partial<Record<keyof F, unknown>> = {};
      for (const { name, column, field } of all) values[name] = field.fromText(textOf(column));
      return values as ValuesOf<F>;
    },
  };
}

const MAX_QUANTITY = 1_000_000;

/** An optional id: 0 means unknown. */
export const optionalId = z
  .bigint()
  .refine((value) => value >= 0n && value <= MAX_ID, 'must be an id up to 2^53-1');

/** Number of units of a line item. */
export const quantity = z
  .int()
  .refine((value) => value >= 1 && value <= MAX_QUANTITY, `must be from 1 to ${MAX_QUANTITY}`);

export const countryCode = z
  .string()
  .regex(/^([A-Za-z]{2})?$/, 'must be two letters')
  .transform((value) => value.toUpperCase());

/** A text of at most `max` characters. Empty means unknown. */
function textField(max = SHORT_TEXT_MAX): Field<string> {
  return storedAsText(anyText(max));
}

/** Two letters of ISO 3166, stored in upper case. Empty means unknown. */
const countryField: Field<string> = storedAsText(countryCode);

/** A required id. */
const idField: Field<bigint> = storedId(id);

/** An optional id, stored as 0 when unknown. */
const optionalIdField: Field<bigint> = storedId(optionalId);

/** An optional id, stored as null when unknown. */
const nullableIdField: Field<bigint> = {
  input: optionalId,
  toColumn: (value) => (value === 0n ? null : value.toString()),
  fromText: (text) => BigInt(text ?? 0),
};

/** A whole number. `input` checks it. */
function numberField(input: z.ZodType<number>): Field<number> {
  return { input, toColumn: (value) => value, fromText: Number };
}

/**
 * A value of an enum, stored as its text.
 *
 * @param desc the enum in the proto.
 */
function enumField<T extends number>(desc: GenEnum<T>, input: z.ZodType<T>): Field<T> {
  const texts = enumText(desc);
  return { input, toColumn: texts.toText, fromText: (text) => texts.fromText(text ?? '') };
}

/** Makes a field that partners never see. */
function internal<T>(field: Field<T>): Field<T> {
  return { ...field, isInternal: true };
}

function storedAsText(input: z.ZodType<string>): Field<string> {
  return { input, toColumn: (value) => value, fromText: (text) => text ?? '' };
}

function storedId(input: z.ZodType<bigint>): Field<bigint> {
  return { input, toColumn: String, fromText: (text) => BigInt(text ?? 0) };
}

/**
 * The fields of a submitted return that are part of the details, except amounts, order and customer.
 * docs/recipes/return-field.md says how to add one.
 */
export const RETURN_FIELDS = fieldTable({
  type: enumField(
    ReturnTypeSchema,
    z.enum(ReturnType, 'is unknown').transform((value) => value || ReturnType.STANDARD),
  ),
  outcome: enumField(
    OutcomeSchema,
    z.enum(Outcome, 'is unknown').refine((value) => value !== Outcome.UNSPECIFIED, 'is required'),
  ),
  returnMethod: enumField(
    ReturnMethodSchema,
    z.enum(ReturnMethod, 'is unknown').transform((value) => value || ReturnMethod.MAIL),
  ),
  destinationId: nullableIdField,
  statusPageUrl: textField(URL_MAX),
  packageReference: textField(),
  upsellPayment: internal(
    enumField(
      UpsellPaymentSchema,
      z.enum(UpsellPayment, 'is unknown').transform((value) => value || UpsellPayment.INVOICE),
    ),
  ),
  upsellPaymentReference: internal(textField()),
});

/**
 * The fields of a submitted line item that are part of the details, except amounts. docs/recipes/return-field.md says
 * how to add one.
 */
export const LINE_FIELDS = fieldTable({
  providerLineItemId: idField,
  providerLineItemExternalId: textField(),
  productId: optionalIdField,
  variantId: optionalIdField,
  sku: textField(),
  lineItemTitle: textField(),
  variantTitle: textField(),
  title: textField(),
  image: textField(URL_MAX),
  quantity: numberField(quantity),
  exchangeVariant: textField(),
  barcode: textField(),
  providerRestockLocationId: textField(),
  reason: textField(),
  parentReason: textField(),
  outcome: enumField(
    LineOutcomeSchema,
    z.enum(LineOutcome, 'is unknown').transform((value) => value || LineOutcome.DEFAULT),
  ),
  hsCode: internal(textField()),
  countryOfOrigin: internal(countryField),
  weightG: internal(numberField(z.int().nonnegative('must not be negative'))),
});

const amount = z.custom<Amount>().optional();

/** The input of amounts, by name. The amounts are parsed later, because the currencies are needed for that. */
export function amountsOf<K extends string>(names: readonly K[]) {
  // `fromEntries` loses the type of the keys.
  return Object.fromEntries(names.map((name) => [name, amount])) as Record<K, typeof amount>;
}

/** Maximum time by which the clock of a caller may be ahead. Milliseconds. */
const SKEW_MS = 60_000;

/** Earlier times are zero values of programs: the year 1 of Go, and 1970 of an empty timestamp. */
const FIRST = new Date('2000-01-01T00:00:00Z');

/**
 * Checks that a time is not in the future, and not a zero value. A time that is at most {@link SKEW_MS} ahead is replaced by the current
 * time.
 *
 * @throws DomainError INVALID_ARGUMENT when it is further ahead, or before the year 2000.
 */
export function pastTime(field: string, time: Date, now: Date = new Date()): Date {
  if (time.getTime() > now.getTime() + SKEW_MS) {
    throw invalidField(field, 'must not be in the future');
  }
  if (time < FIRST) {
    throw invalidField(field, 'must not be before the year 2000: leave it out if it is unknown');
  }
  return time < now ? time : now;
}
