import { type Client, Code, ConnectError } from '@connectrpc/connect';
import type { ReturnsService } from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { findScattered, type Invoice, readInvoices, type Source } from './rows.ts';
import { mapInvoice, type RowError, type Submission } from './submission.ts';
import { type ImportTarget, otherMethod } from './target.ts';

/** Number of returns that are submitted concurrently. */
const PARALLEL = 8;

/** Maximum number of errors in the summary; further errors are only counted. */
const MAX_ERRORS = 1_000;

export interface ImportSummary {
  /** Returns and rows that this run created. */
  readonly imported: { returns: number; rows: number };
  /** Returns and rows that an earlier run had created. */
  readonly skipped: { returns: number; rows: number };
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
 * A return is rejected as a whole when one of its rows is invalid, or when its rows are not adjacent. To find out whether
 * they are, the file is read to its end before anything is submitted. All other returns are submitted. An outage ends
 * the run.
 *
 * @param progress called after each return with the bytes read so far.
 * @throws ConnectError when the service cannot be reached; Error when the file cannot be read.
 */
export async function importReturns(
  source: Source,
  target: ImportTarget,
  o: {
    readonly returns: Client<typeof ReturnsService>;
    readonly progress: (bytesRead: number) => void;
  },
): Promise<ImportSummary> {
  const summary: ImportSummary = {
    imported: { returns: 0, rows: 0 },
    skipped: { returns: 0, rows: 0 },
    rejected: { returns: 0, rows: 0 },
    errors: [],
    errorCount: 0,
  };
  const scattered = await findScattered(source);
  const running = new Set<Promise<void>>();
  const rejected = new Set<string>();
  let failure: unknown;
  for await (const invoice of readInvoices(source)) {
    if (failure) break;
    const work = importOne(invoice, target, { ...o, scattered })
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
  summary.errors.sort((one, other) => one.line - other.line);
  return summary;
}

type InvoiceResult = 'imported' | 'skipped' | { readonly errors: readonly RowError[] };

async function importOne(
  invoice: Invoice,
  target: ImportTarget,
  {
    returns,
    scattered,
  }: { readonly returns: Client<typeof ReturnsService>; readonly scattered: ReadonlySet<string> },
): Promise<InvoiceResult> {
  const mapped = mapInvoice(invoice, target);
  if ('errors' in mapped) return mapped;
  if (scattered.has(invoice.number)) {
    const reason = `${invoice.number} has rows elsewhere in the file too: rows of one invoice must be adjacent`;
    return { errors: [{ line: invoice.rows[0]?.line ?? 0, reason }] };
  }
  try {
    const repeated = await submit(returns, mapped.submission, target);
    return repeated ? 'skipped' : 'imported';
  } catch (error) {
    const reason = rejectionReason(error, invoice.number);
    if (!reason) throw error;
    return { errors: [{ line: invoice.rows[0]?.line ?? 0, reason }] };
  }
}

/**
 * Submits a return. Returns true when the return existed already.
 *
 * The service may respond that the key was used with other content. Then an earlier run may have used the other return
 * method, because the shop had another label provider. So the submission is repeated with that method. This creates
 * nothing, because its key is used already.
 */
async function submit(
  returns: Client<typeof ReturnsService>,
  submission: Submission,
  { returnMethod }: ImportTarget,
): Promise<boolean> {
  const limits = { timeoutMs: 20_000 };
  try {
    return (await returns.submitReturn(submission, limits)).repeated;
  } catch (error) {
    if (ConnectError.from(error).code !== Code.AlreadyExists) throw error;
    const earlier = { ...submission, returnMethod: otherMethod(returnMethod) };
    return (await returns.submitReturn(earlier, limits)).repeated;
  }
}

/** The reason why the service rejected this return; undefined for other errors, such as an outage. */
function rejectionReason(error: unknown, invoice: string): string | undefined {
  const { code, rawMessage } = ConnectError.from(error);
  if (code === Code.AlreadyExists) {
    return `${invoice} was imported before with other rows; rows of one invoice must be adjacent`;
  }
  return code === Code.InvalidArgument || code === Code.FailedPrecondition ? rawMessage : undefined;
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
