import { Readable } from 'node:stream';
import { CsvError, parse } from 'csv-parse';
import { normalForm } from '../../../services/platform/values/text.ts';
import { neededSigns } from './amount.ts';
import { decoded } from './decoded.ts';
import { type Column, type Format, positionsIn, withoutInvisible } from './format.ts';
import type { Source } from './source.ts';
import { formsOf, linesOf } from './time-in-zone.ts';

export type Row = Readonly<Record<Column, string>> & {
  /** Line of the file, from 1. */
  readonly line: number;
  /** Whether the row has as many cells as the first line. Empty cells at the end do not count. */
  readonly isWhole: boolean;
};

/** The adjacent rows of one invoice; they become one return. */
export interface Invoice {
  /** In its normal form, so that all spellings of a number are one invoice. */
  readonly number: string;
  /** At most {@link MAX_ROWS} + 1 rows. Further rows are only counted. */
  readonly rows: readonly Row[];
  /** The number of adjacent rows of this invoice in the file. */
  readonly size: number;
  /** Bytes of the file read so far. */
  readonly bytesRead: number;
}

/** Maximum rows of one return; the service accepts no more. */
export const MAX_ROWS = 250;

/**
 * Reads a CSV file invoice by invoice, with only one invoice in memory. An invoice that is too long for a return is
 * rejected later; here it has {@link MAX_ROWS} + 1 rows.
 *
 * @throws Error with the line when a column is missing or there twice, the file is not CSV, or bytes are no text.
 */
export async function* readInvoices(source: Source, format: Format): AsyncGenerator<Invoice> {
  const progress = { bytes: 0 };
  let rows: Row[] = [];
  let size = 0;
  for await (const row of readRows(source, format, progress)) {
    const [first] = rows;
    if (first && numberOf(first) !== numberOf(row)) {
      yield { number: numberOf(first), rows, size, bytesRead: progress.bytes };
      [rows, size] = [[], 0];
    }
    if (rows.length <= MAX_ROWS) rows.push(row);
    size += 1;
  }
  const [first] = rows;
  if (first) yield { number: numberOf(first), rows, size, bytesRead: progress.bytes };
}

/** Rows whose numbers look the same are one invoice, so that an invisible character in one row rejects all of them. */
const numberOf = (row: Row) => normalForm(withoutInvisible(row.InvoiceNo));

async function* readRows(
  source: Source,
  format: Format,
  progress: { bytes: number },
): AsyncGenerator<Row> {
  const text = Readable.from(decoded(source, format.encoding, progress));
  const parser = text.pipe(
    parse({
      delimiter: format.separator,
      info: true,
      // A file may have several: its header of one program, its rows of another.
      record_delimiter: ['\r\n', '\n', '\r'],
      skip_empty_lines: true,
      skip_records_with_empty_values: true,
      relax_column_count: true,
      max_record_size: 65_536,
    }),
  );
  text.once('error', (error) => parser.destroy(error));
  let skipped = format.hasSeparatorLine ? 0 : 1;
  let last = 0;
  let rowOf: ((cells: readonly string[], line: number) => Row) | undefined;
  try {
    for await (const { record, info } of parser as AsyncIterable<Parsed>) {
      last = info.lines;
      if (skipped === 0) skipped = 1;
      else if (rowOf) yield rowOf(record, info.lines);
      else rowOf = rowReader(record, format);
    }
  } catch (error) {
    throw error instanceof CsvError ? notCsv(error, last) : error;
  } finally {
    text.destroy();
  }
}

/** @param last line of the last whole row. */
function notCsv(error: CsvError, last: number): Error {
  const reasons: Partial<Record<CsvError['code'], string>> = {
    CSV_MAX_RECORD_SIZE: `line ${last + 1}: the row is longer than 65536 characters; probably a quote in it does not close`,
    CSV_QUOTE_NOT_CLOSED: `line ${last + 1}: a quote does not close`,
  };
  const advice = 'write a cell with a quote in quotes, and the quote twice: "5"" pipe"';
  const reason = reasons[error.code] ?? `line ${error.lines}: a quote is within a cell: ${advice}`;
  return new Error(reason, { cause: error });
}

interface Parsed {
  readonly record: readonly string[];
  readonly info: { readonly lines: number };
}

/** Returns a function that reads the cells of a row by the names of the header. */
function rowReader(header: readonly string[], format: Format) {
  const at = positionsIn(header, format);
  const width = header.findLastIndex((name) => name.trim() !== '') + 1;
  return (cells: readonly string[], line: number): Row => {
    const cell = (column: Column) => cells[at[column]] ?? '';
    return {
      line,
      isWhole: cells.length >= width && cells.slice(width).every((one) => one.trim() === ''),
      InvoiceNo: cell('InvoiceNo'),
      StockCode: cell('StockCode'),
      Description: cell('Description'),
      Quantity: cell('Quantity'),
      InvoiceDate: cell('InvoiceDate'),
      UnitPrice: cell('UnitPrice'),
      CustomerID: cell('CustomerID'),
      Country: cell('Country'),
    };
  };
}

/**
 * Reads a whole CSV file, and returns the numbers of the invoices that may lack rows, each with the reason: its rows are
 * not all adjacent, so that {@link readInvoices} yields it in several parts, or the next row has no number. Some programs
 * write the number only in the first row of an invoice.
 *
 * @throws Error for the same reasons as readInvoices, and for dates in another order of day and month than stated, or
 *   numbers with another decimal sign, because the other dates and numbers of the file would be wrong.
 */
export async function findIncomplete(
  source: Source,
  format: Format,
): Promise<ReadonlyMap<string, string>> {
  const seen = new Set<string>();
  const reasons = new Map<string, string>();
  let before = '';
  for await (const { number, rows } of readInvoices(source, format)) {
    if (number === '') reasons.set(before, FOLLOWED);
    else if (seen.has(number)) reasons.set(number, SCATTERED);
    seen.add(number);
    before = number;
    for (const row of rows) requireForms(row, format);
  }
  return reasons;
}

const SCATTERED = 'has rows elsewhere in the file too: rows of one invoice must be adjacent';
const FOLLOWED =
  'is followed by a row without InvoiceNo, which may be its own: fill it in, or remove it';

function requireForms({ line, ...row }: Row, format: Format): void {
  const { dates } = format;
  const forms = dates === 'iso' ? [] : formsOf(row.InvoiceDate);
  if (forms.length > 0 && !forms.includes(dates)) {
    throw new Error(
      `line ${line}: InvoiceDate "${row.InvoiceDate}" is no date ${dates}: the file of --columns needs ${linesOf(forms)}`,
    );
  }
  for (const column of ['UnitPrice', 'Quantity'] as const) {
    const signs = neededSigns(row[column], format).map((sign) => `"decimal": "${sign}"`);
    if (signs.length === 0) continue;
    throw new Error(
      `line ${line}: ${column} "${row[column]}" has another decimal sign than stated: the file of --columns needs ${signs.join(' or ')}`,
    );
  }
}
