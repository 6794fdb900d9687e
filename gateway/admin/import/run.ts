import { type Client, Code, ConnectError } from '@connectrpc/connect';
import type { ReturnsService } from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import type { Format } from './format.ts';
import { findIncomplete, type Invoice, readInvoices } from './rows.ts';
import type { Source } from './source.ts';
import { mapInvoice, type RowError } from './submission.ts';
import type { ImportTarget } from './target.ts';

/** Number of returns that are submitted concurrently. */
const PARALLEL = 8;

/** Maximum number of errors in the summary; further errors are only counted. */
const MAX_ERRORS = 1_000;

export interface ImportSummary {
  /** Returns and rows that this run created. */
  readonly imported: { returns: number; rows: number };
  /** Returns and rows that an earlier run had created. */
  readonly skipped: { returns: number; rows: number };
  /** Returns that an earlier run had created, whose texts this run changed, and their rows. */
  readonly corrected: { returns: number; rows: number };
  /** Returns and rows that were rejected. */
  readonly rejected: { returns: number; rows: number };
  /** The first 1,000 errors, by line of the file. */
  readonly errors: RowError[];
  /** The number of all errors. */
  errorCount: number;
}

/**
 * Submits every return of a CSV file. Safe to run again: the idempotency key of a return is made from its invoice.
 *
 * A return is rejected as a whole when one of its rows is invalid, or when it may lack rows. To find out whether it does,
 * the file is read to its end before anything is submitted. All other returns are submitted. An outage ends the run.
 * Texts of returns that exist become those of the file, see `correct-texts.ts` of the returns service.
 *
 * @param o.requireUnchanged throws if the file changed since the run began. Nothing that was read later is submitted.
 * @param o.progress called after each return with the bytes read so far.
 * @throws ConnectError when the service cannot be reached; Error when the file cannot be read.
 */
export async function importReturns(
  source: Source,
  target: ImportTarget,
  o: {
    readonly returns: Client<typeof ReturnsService>;
    readonly format: Format;
    readonly progress: (bytesRead: number) => void;
    readonly requireUnchanged: () => Promise<void>;
  },
): Promise<ImportSummary> {
  const summary: ImportSummary = {
    imported: { returns: 0, rows: 0 },
    skipped: { returns: 0, rows: 0 },
    corrected: { returns: 0, rows: 0 },
    rejected: { returns: 0, rows: 0 },
    errors: [],
    errorCount: 0,
  };
  const incomplete = await findIncomplete(source, o.format);
  const running = new Set<Promise<void>>();
  const rejected = new Set<string>();
  let failure: unknown;
  for await (const invoice of readInvoices(source, o.format)) {
    // Before each submission: a file that grows may end within an amount.
    await o.requireUnchanged().catch((error) => {
      failure ??= error;
    });
    if (failure) break;
    const work = importOne(invoice, target, { ...o, incomplete })
      .then((result) => {
        count(summary, invoice, { result, rejected });
        o.progress(invoice.bytesRead);
      })
      .catch((error) => {
        failure ??= error;
      })
      .finally(() => running.delete(work));
    running.add(work);
    if (running.size >= PARALLEL) await Promise.race(running);
  }
  await Promise.all(running);
  if (failure) throw failure;
  await o.requireUnchanged();
  summary.errors.sort((one, other) => one.line - other.line);
  return summary;
}

type InvoiceResult =
  | 'imported'
  | 'skipped'
  | 'corrected'
  | { readonly errors: readonly RowError[] };

async function importOne(
  invoice: Invoice,
  target: ImportTarget,
  {
    returns,
    format,
    incomplete,
  }: {
    readonly returns: Client<typeof ReturnsService>;
    readonly format: Format;
    readonly incomplete: ReadonlyMap<string, string>;
  },
): Promise<InvoiceResult> {
  const mapped = mapInvoice(invoice, target, format);
  if ('errors' in mapped) return mapped;
  const reason = incomplete.get(invoice.number);
  if (reason) {
    return {
      errors: [{ line: invoice.rows[0]?.line ?? 0, reason: `${invoice.number} ${reason}` }],
    };
  }
  try {
    const { repeated, corrected } = await returns.submitReturn(mapped.submission, LIMITS);
    if (corrected) return 'corrected';
    return repeated ? 'skipped' : 'imported';
  } catch (error) {
    const errors = rejectionReasons(error, invoice);
    if (!errors) throw error;
    return { errors };
  }
}

const LIMITS = { timeoutMs: 20_000 };

/** The column from which a field of a submission is made. Amounts are those of `UnitPrice`. */
const COLUMN_OF: Readonly<Record<string, string>> = {
  idempotency_key: 'InvoiceNo',
  'order.name': 'InvoiceNo',
  quantity: 'Quantity',
  sku: 'StockCode',
  line_item_title: 'Description',
  title: 'Description',
  'customer.address.country': 'Country',
  submitted_at: 'InvoiceDate',
  'customer.last_name': 'CustomerID',
  lines: 'the number of rows',
};

/** The reasons why the service rejected this return; undefined for other errors, such as an outage. */
function rejectionReasons(error: unknown, invoice: Invoice): RowError[] | undefined {
  const { code, rawMessage } = ConnectError.from(error);
  if (code === Code.FailedPrecondition) {
    return [{ line: invoice.rows[0]?.line ?? 0, reason: rawMessage }];
  }
  if (code === Code.InvalidArgument) {
    const [field = '', ...rule] = rawMessage.split(' ');
    const { line, column = field } = cellOf(field, invoice);
    return [{ line, reason: [column, ...rule].join(' ') }];
  }
  if (code !== Code.AlreadyExists) return undefined;
  const [, fields = ''] = rawMessage.split(': ');
  const byRow = fields.split(', ').map((field) => {
    const { line, column = 'a value' } = cellOf(field, invoice);
    const reason = `${invoice.number} was imported before with other rows: ${column} differs; only texts can be corrected`;
    return [`${line} ${reason}`, { line, reason }] as const;
  });
  return [...new Map(byRow).values()];
}

/** The line and the column from which a field of a submission is made. */
function cellOf(field: string, { rows }: Invoice): { line: number; column?: string | undefined } {
  const [, at, name = field] = /^lines\[(\d+)\]\.(.*)$/.exec(field) ?? [];
  const line = rows[Number(at ?? 0)]?.line ?? 0;
  return { line, column: COLUMN_OF[name] ?? (at === undefined ? undefined : 'UnitPrice') };
}

/**
 * Counts the result of an invoice, or of a part of it. An invoice in several parts is counted as rejected only once.
 */
function count(
  summary: ImportSummary,
  invoice: Invoice,
  { result, rejected }: { readonly result: InvoiceResult; readonly rejected: Set<string> },
): void {
  const kind = typeof result === 'string' ? result : 'rejected';
  if (!rejected.has(invoice.number)) summary[kind].returns += 1;
  summary[kind].rows += invoice.size;
  if (typeof result === 'string') return;
  rejected.add(invoice.number);
  summary.errorCount += result.errors.length;
  summary.errors.push(...result.errors.slice(0, MAX_ERRORS - summary.errors.length));
}
