import { createReadStream } from 'node:fs';
import type { FileHandle } from 'node:fs/promises';
import { parse } from 'csv-parse';

/** The columns that the importer reads; others are ignored. */
const COLUMNS = [
  'InvoiceNo',
  'StockCode',
  'Description',
  'Quantity',
  'InvoiceDate',
  'UnitPrice',
  'CustomerID',
  'Country',
] as const;

export type Row = Readonly<Record<(typeof COLUMNS)[number], string>> & {
  /** Line of the file, from 1. */
  readonly line: number;
  /** Whether the row has as many cells as the first line. */
  readonly isWhole: boolean;
};

/** The adjacent rows of one invoice; they become one return. */
export interface Invoice {
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

/** A path, or an open file. It is read from its beginning each time. */
export type Source = string | FileHandle;

/**
 * Reads a CSV file invoice by invoice, with only one invoice in memory. An invoice that is too long for a return is
 * rejected later; here it has {@link MAX_ROWS} + 1 rows.
 *
 * @throws Error with the line when a column is missing or the file is not CSV.
 */
export async function* readInvoices(source: Source): AsyncGenerator<Invoice> {
  const file =
    typeof source === 'string'
      ? createReadStream(source)
      : source.createReadStream({ start: 0, autoClose: false });
  let hasHeader = false;
  const parser = file.pipe(
    parse({
      bom: true,
      columns: (header: string[]) => {
        hasHeader = true;
        return checkHeader(header);
      },
      info: true,
      skip_empty_lines: true,
      relax_column_count: true,
      max_record_size: 65_536,
    }),
  );
  file.once('error', (error) => parser.destroy(error));
  let rows: Row[] = [];
  let size = 0;
  for await (const { record, info } of parser as AsyncIterable<Parsed>) {
    const row = { ...EMPTY, ...record, line: info.lines, isWhole: info.error === undefined };
    const [first] = rows;
    if (first && first.InvoiceNo !== row.InvoiceNo) {
      yield { number: first.InvoiceNo, rows, size, bytesRead: file.bytesRead };
      [rows, size] = [[], 0];
    }
    if (rows.length <= MAX_ROWS) rows.push(row);
    size += 1;
  }
  const [first] = rows;
  if (first) yield { number: first.InvoiceNo, rows, size, bytesRead: file.bytesRead };
  // A file with only blank lines counts as empty.
  else if (!hasHeader) checkHeader([]);
}

/**
 * Reads a whole CSV file, and returns the numbers of the invoices whose rows are not all adjacent. {@link readInvoices}
 * yields such an invoice in several parts.
 *
 * @throws Error for the same reasons as readInvoices.
 */
export async function findScattered(source: Source): Promise<ReadonlySet<string>> {
  const seen = new Set<string>();
  const scattered = new Set<string>();
  for await (const { number } of readInvoices(source)) {
    if (seen.has(number)) scattered.add(number);
    seen.add(number);
  }
  return scattered;
}

/** The values of missing cells. */
const EMPTY: Record<(typeof COLUMNS)[number], string> = {
  InvoiceNo: '',
  StockCode: '',
  Description: '',
  Quantity: '',
  InvoiceDate: '',
  UnitPrice: '',
  CustomerID: '',
  Country: '',
};

interface Parsed {
  readonly record: Partial<Record<(typeof COLUMNS)[number], string>>;
  readonly info: { readonly lines: number; readonly error?: Error };
}

function checkHeader(header: string[]): string[] {
  const missing = COLUMNS.filter((column) => !header.includes(column));
  if (missing.length === 0) return header;
  const all = missing.length === COLUMNS.length ? '' : `; it needs ${COLUMNS.join(', ')}`;
  throw new Error(`line 1: the file has no column ${missing.join(', ')}${all}`);
}
