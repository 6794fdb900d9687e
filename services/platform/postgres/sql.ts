import type pg from 'pg';

/** A value of a statement. A statement that uses one `Param` several times has one parameter for it. */
export class Param {
  readonly value: unknown;

  constructor(value: unknown) {
    this.value = value;
  }
}

/** A piece of SQL, with its values. */
export class Sql {
  readonly parts: readonly (string | Param)[];

  constructor(parts: readonly (string | Param)[]) {
    this.parts = parts;
  }
}

/**
 * Creates SQL with values: sql`select … where id = ${id}`. Each inserted value becomes a parameter, and never a part of
 * the text. Only pieces made by `sql`, {@link raw} and {@link rowsOf} become a part of the text.
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

/** Creates a parameter that a statement can use several times. */
export function param(value: unknown): Param {
  return new Param(value);
}

/** Creates SQL from a text, without checking or escaping it. Only for constants of this program. */
export function raw(text: string | number): Sql {
  return new Sql([`${text}`]);
}

/**
 * Returns a statement that the server prepares once for each connection. So its text must be the same in each call:
 * only values and numbers of rows may differ. The text is built only once.
 */
export function named(name: string, { parts }: Sql): pg.QueryConfig {
  const cached = layouts.get(name);
  const values = cached && valuesIn(parts, cached);
  if (cached && values) return { name, text: cached.text, values };
  const layout = layoutOf(parts);
  layouts.set(name, layout);
  return { name, text: layout.text, values: valuesIn(parts, layout) ?? [] };
}

/** Returns a statement that the server plans in each call. */
export function unnamed({ parts }: Sql): { readonly text: string; readonly values: unknown[] } {
  const layout = layoutOf(parts);
  return { text: layout.text, values: valuesIn(parts, layout) ?? [] };
}

/** The text of a statement and the places of its values. */
interface Layout {
  readonly text: string;
  /** The parts of the text. Between two of them is the index of the parameter there. */
  readonly places: readonly (string | number)[];
}

/** The layouts of named statements, by name. */
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

/** Returns the values in the order of the parameters. Undefined when the parts do not have this layout. */
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

/** For each type of column in a set of rows: the type of value that the driver accepts. */
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

/** The type of a column, and the function that reads its value from a row. */
type Column<T> = {
  [Type in keyof ValueTypes]: readonly [Type, (row: T) => ValueTypes[Type] | null | undefined];
}[keyof ValueTypes];

/**
 * Declares the columns of a set of rows. Returns a function that makes SQL for `from` or `join`: `unnest(…) as alias
 * (column, …)`. Each column is one parameter, so that the text does not depend on the number of rows. `ordinal` is the
 * name of an additional column that counts the rows from 1.
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
