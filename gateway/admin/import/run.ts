import { type Client, Code, ConnectError } from '@connectrpc/connect';
import type { ReturnsService } from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { findScattered, type Invoice, readInvoices } from './rows.ts';
import { mapInvoice, type RowFault, type Submission } from './submission.ts';
import { type ImportTarget, otherMethod } from './target.ts';

/** Returns submitted at the same time. */
const PARALLEL = 8;

/** Refused rows kept for the summary; further ones are only counted. */
const MAX_FAULTS = 1_000;

export interface ImportSummary {
  /** Returns and rows that this run made. */
  readonly imported: { returns: number; rows: number };
  /** Returns and rows that an earlier run had made. */
  readonly skipped: { returns: number; rows: number };
  /** Returns and rows that were not taken. */
  readonly refused: { returns: number; rows: number };
  /** Why, by line of the file; the first 1,000. */
  readonly faults: RowFault[];
  /** Of all of them. */
  faultCount: number;
}

/**
 * Submits every return of a CSV file. Safe to run again: a return's key is made of its invoice.
 *
 * A return with a refused row is refused as a whole, and so is one whose rows stand apart: the file is
 * read to its end before anything is submitted. The others go on. An outage ends the run.
 *
 * @param progress called after each return with the bytes read so far.
 * @throws ConnectError when the service cannot be reached; Error when the file cannot be read.
 */
export async function importReturns(
  path: string,
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
  const scattered = await findScattered(path);
  const running = new Set<Promise<void>>();
  const refused = new Set<string>();
  let failure: unknown;
  for await (const invoice of readInvoices(path)) {
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
 * Submits a return; true when it was there. An earlier run may have found the shop with another maker
 * of labels, so what is refused for its content is asked for with that run's method: its key is used,
 * so nothing is written.
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

/** What the service says against this return; undefined when it says nothing about it (an outage). */
function refusalOf(error: unknown, invoice: string): string | undefined {
  const { code, rawMessage } = ConnectError.from(error);
  if (code === Code.AlreadyExists) {
    return `${invoice} was imported before with other rows; rows of one invoice must stand together`;
  }
  return code === Code.InvalidArgument || code === Code.FailedPrecondition ? rawMessage : undefined;
}

/** Counts what became of an invoice, or of a part of one: its number is refused once. */
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
