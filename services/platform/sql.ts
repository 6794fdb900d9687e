import type pg from 'pg';

/** A value of a statement. If a statement uses the same `Param` several times, it is one parameter. */
export class Param {
  readonly value: unknown;

  constructor(value: unknown) {
    this.value = value;
  }
}

/** A piece of SQL with its values. */
export class Sql {
  readonly parts: readonly (string | Param)[];

  constructor(parts: readonly (string | Param)[]) {
    this.parts = parts;
  }
}

/**
 * SQL with values: sql`select … where id = ${id}`. Each inserted value becomes a parameter of the statement, never a
 * part of its text. Pieces made by `sql`, {@link raw} and {@link rowsOf} become a part of the text.
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

/** Creates a parameter that a statement may use several times. */
export function param(value: unknown): Param {
  return new Param(value);
}

/** Creates SQL from a text without a check or escape. Only for constants of this program. */
export function raw(text: string | number): Sql {
  return new Sql([`${text}`]);
}

/**
 * Returns the statement for `query`. The server prepares it once per connection, so its text must be the same in each
 * call; only values and numbers of rows may differ. This function builds the text once.
 */
export function named(name: string, { parts }: Sql): pg.QueryConfig {
  const cached = layouts.get(name);
  const values = cached && valuesIn(parts, cached);
  if (cached && values) return { name, text: cached.text, values };
  const layout = layoutOf(parts);
  layouts.set(name, layout);
  return { name, text: layout.text, values: valuesIn(parts, layout) ?? [] };
}

/** Returns the statement for `query`. The server plans it in each call. */
export function unnamed({ parts }: Sql): { readonly text: string; readonly values: unknown[] } {
  const layout = layoutOf(parts);
  return { text: layout.text, values: valuesIn(parts, layout) ?? [] };
}

/** The text of a statement and the places of its values. */
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
    const index = params.indexOf(part);
    return index >= 0 ? index : params.push(part) - 1;
  });
  const text = places
    .map((place) => (typeof place === 'string' ? place : `$${place + 1}`))
    .join('');
  return { text, places };
}

/** Returns the values in the order of the parameters; undefined when the parts have another layout. */
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

/** The column types of row sets, with the types that the driver accepts for them. */
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
 * Declares the columns of a set of rows. The returned function makes a table of rows, for `from` or `join`:
 * `unnest(…) as alias (column, …)`. Each column is one parameter, so that the number of rows does not change the text.
 * `ordinal` names a further column, which counts the rows from 1.
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
