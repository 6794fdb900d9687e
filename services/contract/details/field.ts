import type { Timestamp } from '@bufbuild/protobuf/wkt';
import { z } from 'zod';
import { amount, means, nullableId, nullableText, time } from '../resources/response-fields.ts';
import { idNumber, idText, iso, plain, textOrNull } from '../views/values.ts';

/** One field of a public object: its schema, and how its value is read from the messages of the services. */
export interface ViewField<Source, T> {
  readonly schema: z.ZodType<T>;
  readonly read: (source: Source) => T;
}

/**
 * The kinds of field of a public object. The values are read from a `Source`. Empty texts and ids of 0 become null.
 * `meaning` is the description of the field in the OpenAPI documents.
 */
export function viewFields<Source extends { readonly none: string }>() {
  return {
    text: (
      meaning: string,
      read: (source: Source) => string | undefined,
    ): ViewField<Source, string | null> => ({
      schema: means(nullableText(), meaning),
      read: (source) => textOrNull(read(source)),
    }),
    /** An id as a JSON number. */
    id: (
      meaning: string,
      read: (source: Source) => bigint | undefined,
    ): ViewField<Source, number | null> => ({
      schema: means(nullableId(), meaning),
      read: (source) => idNumber(read(source) ?? 0n),
    }),
    /** An id that the interface writes as a string. */
    idText: (
      meaning: string,
      read: (source: Source) => bigint,
    ): ViewField<Source, string | null> => ({
      schema: means(nullableText(), meaning),
      read: (source) => idText(read(source)),
    }),
    /** A time in the form `YYYY-MM-DDThh:mm:ss+00:00`. */
    time: (
      meaning: string,
      read: (source: Source) => Timestamp | undefined,
    ): ViewField<Source, string | null> => ({
      schema: means(time(), meaning),
      read: (source) => iso(read(source)),
    }),
    /** A time in the form `YYYY-MM-DD hh:mm:ss`. */
    plainTime: (
      meaning: string,
      read: (source: Source) => Timestamp | undefined,
    ): ViewField<Source, string | null> => ({
      schema: means(
        z.string().nullable().meta({ description: 'YYYY-MM-DD hh:mm:ss, UTC' }),
        meaning,
      ),
      read: (source) => plain(read(source)),
    }),
    /** A decimal amount. An absent amount becomes zero. */
    amount: (
      meaning: string,
      read: (source: Source) => string | undefined,
    ): ViewField<Source, string> => ({
      schema: means(amount(), meaning),
      read: (source) => textOrNull(read(source)) ?? source.none,
    }),
    other: <T>(
      meaning: string,
      schema: z.ZodType<T>,
      read: (source: Source) => T,
    ): ViewField<Source, T> => ({
      schema: means(schema, meaning),
      read,
    }),
  };
}

// The fields of one object have values of different types.
// biome-ignore lint/suspicious/noExplicitAny: a map over fields of any value
type AnyFields = Readonly<Record<string, ViewField<any, any>>>;
type ValueOf<F> = F extends ViewField<never, infer T> ? T : never;

/** What an amount means whose currency a request for return details selects. */
export function inShopUnlessSelected(text: string): string {
  return `${text}. In the shop's currency, unless \`currency_type\` is \`presentment\``;
}

/** The type of the object that has these fields. */
export type ViewOf<F extends AnyFields> = { [K in keyof F]: ValueOf<F[K]> };

/** The schemas of the fields, in the form that a zod object takes. */
export function shapeOf<F extends AnyFields>(fields: F): { [K in keyof F]: F[K]['schema'] } {
  const shape = Object.entries(fields).map(([key, { schema }]) => [key, schema]);
  return Object.fromEntries(shape) as { [K in keyof F]: F[K]['schema'] };
}

/** Reads all fields from a source, in the order of `fields`. */
export function viewOf<Source, F extends Readonly<Record<string, ViewField<Source, unknown>>>>(
  fields: F,
  source: Source,
): ViewOf<F> {
  const view: Record<string, unknown> = {};
  for (const [key, field] of Object.entries(fields)) view[key] = field.read(source);
  return view as ViewOf<F>;
}
