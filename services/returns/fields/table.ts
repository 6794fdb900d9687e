import type { z } from 'zod';

/** How one field of the details is taken in, stored and read back. */
export interface Field<T> {
  /** Checks what a submission says. */
  readonly input: z.ZodType<T>;
  /** The value of its column, as JSON. */
  toColumn(value: T): string | number | null;
  /** From its column, cast to text. */
  fromText(text: string | null): T;
  /** Whether partners never see it. */
  readonly isInternal?: boolean;
}

type Fields = Readonly<Record<string, Field<unknown>>>;

/** The values of a table's fields, by name. */
export type ValuesOf<F extends Fields> = {
  readonly [K in keyof F]: F[K] extends Field<infer T> ? T : never;
};

/**
 * Fields that a submission, a row and a message have under one name: `hsCode` is the column `hs_code`. A field
 * that is added here is taken in, stored and answered.
 */
export interface FieldTable<F extends Fields> {
  /** The names of the fields that partners see. */
  readonly publicNames: readonly string[];
  /** The columns, in the order in which {@link FieldTable.read} asks for them. */
  readonly columns: readonly string[];
  /** The checks of a submission, as the shape of a zod object. */
  readonly inputs: { readonly [K in keyof F]: F[K]['input'] };
  /** The values as columns, for `jsonb_populate_recordset`. */
  toColumns(values: ValuesOf<F>): Record<string, string | number | null>;
  /** @param textOf the text of a column; called for each, in their order. */
  read(textOf: (column: string) => string | null): ValuesOf<F>;
}

export function fieldTable<F extends Fields>(fields: F): FieldTable<F> {
  const all = Object.entries(fields).map(([name, field]) => {
    return { name: name as keyof F & string, column: columnOf(name), field };
  });
  const inputs = Object.fromEntries(all.map(({ name, field }) => [name, field.input]));
  return {
    publicNames: all.flatMap(({ name, field }) => (field.isInternal ? [] : name)),
    columns: all.map(({ column }) => column),
    // Object.fromEntries widens the keys of a closed record; so do the loops below.
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

/** `hsCode` is `hs_code`. */
export function columnOf(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}
