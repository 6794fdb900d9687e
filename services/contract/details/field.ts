import type { Timestamp } from '@bufbuild/protobuf/wkt';
import { z } from 'zod';
import { amount, means, nullableId, nullableText, time } from '../resources/response-fields.ts';
import { idNumber, idText, iso, plain, textOrNull } from '../views/values.ts';

/** One key of a public object: its schema, and how to read it from the messages of the services. */
export interface ViewField<Source, T> {
  readonly schema: z.ZodType<T>;
  readonly read: (source: Source) => T;
}

/** The kinds of key of one object, which is read from a `Source`. Empty texts and ids of 0 become null. */
export function viewFields<Source extends { readonly none: string }>() {
  return {
    text: (read: (source: Source) => string | undefined): ViewField<Source, string | null> => ({
      schema: nullableText(),
      read: (source) => textOrNull(read(source)),
    }),
    /** An id as a JSON number. */
    id: (read: (source: Source) => bigint | undefined): ViewField<Source, number | null> => ({
      schema: nullableId(),
      read: (source) => idNumber(read(source) ?? 0n),
    }),
    /** An id that is a string in the interface. */
    idText: (read: (source: Source) => bigint): ViewField<Source, string | null> => ({
      schema: nullableText(),
      read: (source) => idText(read(source)),
    }),
    /** `YYYY-MM-DDThh:mm:ss+00:00`. */
    time: (read: (source: Source) => Timestamp | undefined): ViewField<Source, string | null> => ({
      schema: time(),
      read: (source) => iso(read(source)),
    }),
    /** `YYYY-MM-DD hh:mm:ss`. */
    plainTime: (
      read: (source: Source) => Timestamp | undefined,
    ): ViewField<Source, string | null> => ({
      schema: z.string().nullable().meta({ description: 'YYYY-MM-DD hh:mm:ss, UTC' }),
      read: (source) => plain(read(source)),
    }),
    /** A decimal amount; absent is zero. */
    amount: (read: (source: Source) => string | undefined): ViewField<Source, string> => ({
      schema: amount(),
      read: (source) => textOrNull(read(source)) ?? source.none,
    }),
    other: <T>(schema: z.ZodType<T>, read: (source: Source) => T): ViewField<Source, T> => ({
      schema,
      read,
    }),
  };
}

// The fields of one object have values of different types.
// biome-ignore lint/suspicious/noExplicitAny: a map over fields of any value
type AnyFields = Readonly<Record<string, ViewField<any, any>>>;
type ValueOf<F> = F extends ViewField<never, infer T> ? T : never;

/** What an amount means whose currency a request for return details selects. */
export function selectable(text: string): string {
  return `${text}. In the shop's currency, unless \`currency_type\` is \`presentment\``;
}

/** The object that fields describe. */
export type ViewOf<F extends AnyFields> = { [K in keyof F]: ValueOf<F[K]> };

/**
 * The schemas of fields, as the shape of a zod object.
 *
 * @param texts what each field means, for the OpenAPI documents.
 */
export function shapeOf<F extends AnyFields>(
  fields: F,
  texts: Readonly<Record<keyof F, string>>,
): { [K in keyof F]: F[K]['schema'] } {
  const shape = Object.entries(fields).map(([key, { schema }]) => [
    key,
    means(schema, texts[key] ?? ''),
  ]);
  return Object.fromEntries(shape) as { [K in keyof F]: F[K]['schema'] };
}

/** Reads every field, in their order. */
export function viewOf<Source, F extends Readonly<Record<string, ViewField<Source, unknown>>>>(
  fields: F,
  source: Source,
): ViewOf<F> {
  const view: Record<string, unknown> = {};
  for (const [key, field] of Object.entries(fields)) view[key] = field.read(source);
  return view as ViewOf<F>;
}
