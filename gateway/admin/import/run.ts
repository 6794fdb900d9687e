import { type Client, Code, ConnectError } from '@connectrpc/connect';
import type { ReturnsService } from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { findScattered, type Invoice, readInvoices, type Source } from './rows.ts';
import { mapInvoice, type RowFault, type Submission } from './submission.ts';
import { type ImportTarget, otherMethod } from './target.ts';

/** Number of returns that are submitted concurrently. */
const PARALLEL = 8;

/** Maximum number of refused rows in the summary; further ones are only counted. */
const MAX_FAULTS = 1_000;

export interface ImportSummary {
  /** Returns and rows that this run created. */
  readonly imported: { returns: number; rows: number };
  /** Returns and rows that an earlier run had created. */
  readonly skipped: { returns: number; rows: number };
  /** Returns and rows that were refused. */
  readonly refused: { returns: number; rows: number };
  /** The reasons by line of the file; the first 1,000. */
  readonly faults: RowFault[];
  /** The number of all faults. */
  faultCount: number;
}

/**
 * Submits every return of a CSV file. Safe to run again: the idempotency key of a return is made from its invoice.
 *
 * A return with a refused row is refused as a whole, and so is one whose rows are not adjacent; to find those, the
 * file is read to its end before anything is submitted. The other returns are submitted. An outage ends the run.
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
    refused: { returns: 0, rows: 0 },
    faults: [],
    faultCount: 0,
  };
  const scattered = await findScattered(source);
  const running = new Set<Promise<void>>();
  const refused = new Set<string>();
  let failure: unknown;
  for await (const invoice of readInvoices(source)) {
    if (failure) break;
    const work = importOne(invoice, target, { ...o, scattered })
      .then((outcome) => {
        count(summary, invoice, { outcome, refused });
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
  summary.faults.sort((one, other) => one.line - other.line);
  return summary;
}

type Outcome = 'imported' | 'skipped' | { readonly faults: readonly RowFault[] };

async function importOne(
  invoice: Invoice,
  target: ImportTarget,
  {
    returns,
    scattered,
  }: { readonly returns: Client<typeof ReturnsService>; readonly scattered: ReadonlySet<string> },
): Promise<Outcome> {
  const mapped = mapInvoice(invoice, target);
  if ('faults' in mapped) return mapped;
  if (scattered.has(invoice.number)) {
    const reason = `${invoice.number} has rows elsewhere in the file too: rows of one invoice must stand together`;
    return { faults: [{ line: invoice.rows[0]?.line ?? 0, reason }] };
  }
  try {
    const repeated = await submit(returns, mapped.submission, target);
    return repeated ? 'skipped' : 'imported';
  } catch (error) {
    const reason = refusalOf(error, invoice.number);
    if (!reason) throw error;
    return { faults: [{ line: invoice.rows[0]?.line ?? 0, reason }] };
  }
}

/**
 * Submits a return; true when it existed already. When the service answers that the key was used with another content,
 * an earlier run may have used another return method, because the shop then had another label provider. So the
 * submission is repeated with that method. Its key is used already, so this creates nothing.
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

/** The reason why the service refused this return; undefined for other errors, such as an outage. */
function refusalOf(error: unknown, invoice: string): string | undefined {
  const { code, rawMessage } = ConnectError.from(error);
  if (code === Code.AlreadyExists) {
    return `${invoice} was imported before with other rows; rows of one invoice must stand together`;
  }
  return code === Code.InvalidArgument || code === Code.FailedPrecondition ? rawMessage : undefined;
}

/** Counts the outcome of an invoice or a part of one. An invoice in several parts is counted as refused once. */
function count(
  summary: ImportSummary,
  invoice: Invoice,
  { outcome, refused }: { readonly outcome: Outcome; readonly refused: Set<string> },
): void {
  const kind = typeof outcome === 'string' ? outcome : 'refused';
  if (!refused.has(invoice.number)) summary[kind].returns += 1;
  summary[kind].rows += invoice.size;
  if (typeof outcome === 'string') return;
  refused.add(invoice.number);
  summary.faultCount += outcome.faults.length;
  summary.faults.push(...outcome.faults.slice(0, MAX_FAULTS - summary.faults.length));
}
