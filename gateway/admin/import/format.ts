import { readFile } from 'node:fs/promises';
import { z } from 'zod';
import { jsonOf, normalForm, printable } from '../../../services/platform/values/text.ts';
import { encodingOf } from './decoded.ts';
import { readHead, type Source, unreadable } from './source.ts';
import { DATE_FORMS, isZone } from './time-in-zone.ts';

/** The columns that the importer reads; others are ignored. */
export const COLUMNS = [
  'InvoiceNo',
  'StockCode',
  'Description',
  'Quantity',
  'InvoiceDate',
  'UnitPrice',
  'CustomerID',
  'Country',
] as const;
export type Column = (typeof COLUMNS)[number];

const SEPARATORS = { ',': 'commas', ';': 'semicolons', '\t': 'tabs', '|': 'bars' } as const;

const columnMap = z.strictObject({
  columns: z.partialRecord(z.enum(COLUMNS), z.string().min(1)).default({}),
  dates: z.enum(DATE_FORMS).default('iso'),
  zone: z
    .string()
    .refine(isZone, 'must be a time zone such as Europe/Berlin')
    .default('Europe/London'),
  decimal: z.enum(['.', ',']).optional(),
  separator: z.string().length(1).optional(),
  encoding: z.string().optional(),
});

/** How a file names its columns, and how it writes dates and decimals; see docs/import.md. */
export type ColumnMap = z.output<typeof columnMap>;

export const USUAL_COLUMNS: ColumnMap = columnMap.parse({});

/** How to read a file. */
export interface Format extends ColumnMap {
  readonly encoding: string;
  readonly separator: string;
  /** Whether the first line names the separator, as in files for Excel: `sep=;`. */
  readonly hasSeparatorLine: boolean;
}

/** Reads the file of the option `--columns`. @throws Error that says what is wrong with it. */
export async function readColumnMap(path: string): Promise<ColumnMap> {
  const text = await readFile(path, 'utf8').catch((cause) => {
    throw unreadable(path, cause);
  });
  // Windows Notepad begins a file with a byte-order mark.
  const json = jsonOf(text.replace(/^\ufeff/, ''));
  if (json === undefined) throw new Error(`--columns: ${path} is no JSON`);
  const parsed = columnMap.safeParse(json);
  if (parsed.success) return parsed.data;
  throw new Error(`--columns: ${path}: ${z.prettifyError(parsed.error)}`);
}

/**
 * Finds out how to read a file: from its first bytes, the map of its columns, and the encoding that the user named.
 *
 * @throws Error for a file that is empty or no text.
 */
export async function formatOf(
  source: Source,
  map: ColumnMap = USUAL_COLUMNS,
  named?: string,
): Promise<Format> {
  const head = await readHead(source);
  const encoding = encodingOf(head, { named, usual: map.encoding });
  const text = new TextDecoder(encoding).decode(head, { stream: true });
  const lines = text.split(/\r\n|\r|\n/).filter((line) => line.trim() !== '');
  const [first = ''] = lines;
  const stated = /^"?sep=(.)"?$/.exec(first)?.[1];
  const header = stated === undefined ? first : lines[1];
  if (!header) {
    throw new Error(
      `the file is empty: its first line must name the columns ${COLUMNS.join(', ')}`,
    );
  }
  const separator = stated ?? map.separator ?? separatorOf(header, map);
  return { ...map, encoding, separator, hasSeparatorLine: stated !== undefined };
}

/** The separator that finds the most columns, or else the most frequent one. */
function separatorOf(header: string, map: ColumnMap): string {
  const known = new Set(COLUMNS.map((column) => nameIn(map, column)));
  const score = (separator: string) => {
    const cells = header.split(separator).map((cell) => comparable(cell.replaceAll('"', '')));
    return cells.filter((cell) => known.has(cell)).length * 1_000 + cells.length;
  };
  const [first = ',', ...others] = Object.keys(SEPARATORS);
  return others.reduce((best, one) => (score(one) > score(best) ? one : best), first);
}

/** Says how a file is read, for the output. */
export function describeFormat({ encoding, separator }: Format): string {
  const name = Object.entries(SEPARATORS).find(([one]) => one === separator)?.[1];
  return `${encoding.toUpperCase()}, separated by ${name ?? JSON.stringify(separator)}`;
}

/**
 * Characters without a width, which nobody sees or types: soft hyphen, zero-width space, marks of direction, word joiner,
 * byte-order mark. The joiners U+200C and U+200D are not here, because words of some scripts need them.
 */
const INVISIBLE = /[\u00ad\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff]/g;

export const withoutInvisible = (text: string) => text.replaceAll(INVISIBLE, '');

/** Header names are compared without case, spaces, underscores and invisible characters. */
const comparable = (name: string) =>
  normalForm(withoutInvisible(name)).toLowerCase().replaceAll(/[\s_]/g, '');

const nameIn = ({ columns }: ColumnMap, column: Column) => comparable(columns[column] ?? column);

/**
 * Returns the position of each column in the header.
 *
 * @throws Error for a column that is missing, or that is there twice.
 */
export function positionsIn(header: readonly string[], format: Format): Record<Column, number> {
  const names = header.map(comparable);
  const missing = COLUMNS.filter((column) => !names.includes(nameIn(format, column)));
  if (missing.length > 0) {
    const sought = missing.map((column) => format.columns[column] ?? column);
    throw new Error(
      `line 1: the file has no column ${sought.join(', ')}; it has ${printable(header.slice(0, 20).join(', '), 500)} (${describeFormat(format)}). Rename the columns, or map them with --columns`,
    );
  }
  for (const column of COLUMNS) {
    const at = names.indexOf(nameIn(format, column));
    const again = names.indexOf(nameIn(format, column), at + 1);
    if (again > at) {
      throw new Error(
        `line 1: the column ${header[at]} is there twice, as columns ${at + 1} and ${again + 1}: remove one of them, or rename it`,
      );
    }
  }
  const positions = COLUMNS.map((column) => [column, names.indexOf(nameIn(format, column))]);
  // `fromEntries` loses the type of the keys.
  return Object.fromEntries(positions) as Record<Column, number>;
}
