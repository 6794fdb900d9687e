import type pg from 'pg';

/** A value of a statement. Where the same one stands several times, it is one parameter. */
export class Param {
  readonly value: unknown;

  constructor(value: unknown) {
    this.value = value;
  }
}

/** A piece of SQL with the values that stand in it. */
export class Sql {
  readonly parts: readonly (string | Param)[];

  constructor(parts: readonly (string | Param)[]) {
    this.parts = parts;
  }
}

/**
 * SQL with values: sql`select … where id = ${id}`. What is inserted becomes a parameter of the statement, never a part
 * of its text, except pieces made by `sql`, {@link raw} and {@link rowsOf}.
 */
export function sql(texts: readonly string[], ...inserted: readonly unknown[]): Sql {
  const parts: (string | Param)[] = [texts[0] ?? ''];
  inserted.forEach((one, i) => {
    if (one instanceof Sql) parts.push(...one.parts);
    else parts.push(one instanceof Param ? one : new Param(one));
    parts.push(texts[i + 1] ?? '');
  });
  return new Sql(parts);
}

/** A value for several places of a statement, as one parameter. */
export function param(value: unknown): Param {
  return new Param(value);
}

/** Text that becomes a part of the statement as it is. Only for constants of this program. */
export function raw(text: string | number): Sql {
  return new Sql([`${text}`]);
}

/**
 * The statement for `query`, which the server prepares once for each connection. Its text must be the same in each
 * call: only values may differ, and numbers of rows. So the text is made once.
 */
export function named(name: string, { parts }: Sql): pg.QueryConfig {
  const known = layouts.get(name);
  const values = known && valuesIn(parts, known);
  if (known && values) return { name, text: known.text, values };
  const layout = layoutOf(parts);
  layouts.set(name, layout);
  return { name, text: layout.text, values: valuesIn(parts, layout) ?? [] };
}

/** The statement for `query`, which the server plans in each call. */
export function unnamed({ parts }: Sql): { readonly text: string; readonly values: unknown[] } {
  const layout = layoutOf(parts);
  return { text: layout.text, values: valuesIn(parts, layout) ?? [] };
}

/** The text of a statement, and where its values stand. */
interface Layout {
  readonly text: string;
  /** Each part of the text, and the index of the parameter between two. */
  readonly places: readonly (string | number)[];
}

/** The layouts of named statements. */
const layouts = new Map<string, Layout>();

function layoutOf(parts: Sql['parts']): Layout {
  const params: Param[] = [];
  const places = parts.map((part) => {
    if (typeof part === 'string') return part;
    const known = params.indexOf(part);
    return known >= 0 ? known : params.push(part) - 1;
  });
  const text = places
    .map((place) => (typeof place === 'string' ? place : `$${place + 1}`))
    .join('');
  return { text, places };
}

/** The values in the order of the parameters; undefined when the parts have another layout. */
function valuesIn(parts: Sql['parts'], { places }: Layout): unknown[] | undefined {
  if (parts.length !== places.length) return undefined;
  const values: unknown[] = [];
  for (const [i, part] of parts.entries()) {
    const place = places[i];
    if (typeof part === 'string') {
      if (part !== place) return undefined;
    } else if (typeof place === 'number') values[place] = part.value;
    else return undefined;
  }
  return values;
}

/** The column types that row sets have, with what the driver accepts for them. */
interface ValueTypes {
  readonly bigint: bigint;
  readonly boolean: boolean;
  readonly date: string;
  readonly float8: number;
  readonly integer: number;
  readonly numeric: string;
  readonly smallint: number;
  readonly text: string;
  readonly timestamptz: Date | string;
  readonly uuid: string;
}

/** The type of a column, and its value in a row. */
type Column<T> = {
  [Type in keyof ValueTypes]: readonly [Type, (row: T) => ValueTypes[Type] | null | undefined];
}[keyof ValueTypes];

/**
 * Declares the columns of a set of rows. The function that it returns makes a table of given rows, for `from` or
 * `join`: `unnest(…) as alias (column, …)`. Each column is one parameter, so that the number of rows does not change
 * the text. `ordinal` names a further column, which counts the rows from 1.
 */
export function rowsOf<T>(columns: Readonly<Record<string, Column<T>>>) {
  const names = Object.keys(columns).join(', ');
  const all: (readonly [string, (row: T) => unknown])[] = Object.values(columns);
  const casts = all.map(([type], i) => `::${type}[]${i < all.length - 1 ? ', ' : ''}`);
  return (alias: string, rows: readonly T[], ordinal?: string): Sql => {
    const parts: (string | Param)[] = ['unnest('];
    all.forEach(([, of], i) => {
      parts.push(new Param(rows.map((row) => of(row))), casts[i] ?? '');
    });
    parts.push(
      ordinal ? `) with ordinality as ${alias} (${names}, ${ordinal})` : `) as ${alias} (${names})`,
    );
    return new Sql(parts);
  };
}
