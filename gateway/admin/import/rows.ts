import { createReadStream } from 'node:fs';
import { parse } from 'csv-parse';

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

export type Row = Readonly<Record<(typeof COLUMNS)[number], string>> & {
  /** Line of the file, from 1. */
  readonly line: number;
};

/** Rows of one invoice that stand next to each other: one return. */
export interface Invoice {
  readonly number: string;
  readonly rows: readonly Row[];
  /** Bytes of the file read so far. */
  readonly bytesRead: number;
}

/** Most rows of one return: the service takes no more. */
const MAX_ROWS = 250;

/**
 * Reads a CSV file invoice by invoice, holding only one in memory.
 *
 * @throws Error when a column is missing or the file is no CSV, naming the line.
 */
export async function* readInvoices(path: string): AsyncGenerator<Invoice> {
  const file = createReadStream(path);
  const parser = file.pipe(
    parse({
      bom: true,
      columns: (header: string[]) => checkHeader(header),
      info: true,
      skip_empty_lines: true,
      max_record_size: 65_536,
    }),
  );
  file.once('error', (error) => parser.destroy(error));
  let rows: Row[] = [];
  for await (const { record, info } of parser as AsyncIterable<Parsed>) {
    const row = { ...record, line: info.lines };
    const [first] = rows;
    if (first && (first.InvoiceNo !== row.InvoiceNo || rows.length > MAX_ROWS)) {
      yield { number: first.InvoiceNo, rows, bytesRead: file.bytesRead };
      rows = [];
    }
    rows.push(row);
  }
  const [first] = rows;
  if (first) yield { number: first.InvoiceNo, rows, bytesRead: file.bytesRead };
}

interface Parsed {
  readonly record: Omit<Row, 'line'>;
  readonly info: { readonly lines: number };
}

function checkHeader(header: string[]): string[] {
  const missing = COLUMNS.filter((column) => !header.includes(column));
  if (missing.length === 0) return header;
  throw new Error(
    `line 1: the file has no column ${missing.join(', ')}; it needs ${COLUMNS.join(', ')}`,
  );
}
