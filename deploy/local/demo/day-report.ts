import { styleText } from 'node:util';
import type { Durations } from './percentiles.ts';
import type { Received } from './receiver.ts';

/** Counts the received webhooks, and checks that each return and event arrives once with a valid signature. */
export class WebhookLedger {
  readonly #byReturn = new Set<number>();
  readonly #idsByEvent = new Map<string, Set<string>>();
  readonly #seen = new Set<string>();
  repeated = 0;
  invalid = 0;

  /** @returns true when it is the first valid webhook about its return. */
  add(received: Received): boolean {
    if (!received.valid) {
      this.invalid += 1;
      return false;
    }
    if (this.#seen.has(received.webhookId)) this.repeated += 1;
    this.#seen.add(received.webhookId);
    const ids = this.#idsByEvent.get(received.eventId) ?? new Set();
    this.#idsByEvent.set(received.eventId, ids.add(received.webhookId));
    const id = received.payload.id ?? 0;
    const first = !this.#byReturn.has(id);
    this.#byReturn.add(id);
    return first;
  }

  has(returnId: number): boolean {
    return this.#byReturn.has(returnId);
  }

  /** Number of valid webhooks; each id is counted once. */
  get webhooks(): number {
    return this.#seen.size;
  }

  /** Number of events that arrived with more than one id. */
  get doubled(): number {
    return [...this.#idsByEvent.values()].filter((ids) => ids.size > 1).length;
  }
}

interface DayReport {
  /** What an answer should have said, and did not. */
  readonly wrong: readonly string[];
  /** Number of returns that an earlier run had completed. */
  readonly already: number;
  readonly returns: number;
  readonly closed: number;
  readonly ledger: WebhookLedger;
  readonly lost: number;
  /** Number of REST calls that were repeated while the stack was unavailable. */
  readonly repeats: number;
  readonly seconds: number;
  readonly durations: ReadonlyMap<string, Durations>;
}

/** Prints what was received, and how long the calls took. */
export function printReport(report: DayReport): void {
  const { ledger, wrong, already } = report;
  const rows: [string, string | number][] = [
    ['returns', report.returns],
    ['closed', report.closed],
    ['webhooks (valid, by id)', ledger.webhooks],
    ['lost', report.lost],
    ['repeated (same webhook-id again)', ledger.repeated],
    ['duplicates (two ids for one event)', ledger.doubled],
    ['invalid signatures', ledger.invalid],
    ['wrong answers', wrong.length],
    ['repeated REST calls', report.repeats],
    ['seconds', report.seconds.toFixed(1)],
  ];
  console.log();
  for (const [name, value] of rows) console.log(`${name.padEnd(34)}${String(value).padStart(10)}`);
  console.log(
    styleText(
      'bold',
      `\n${'operation'.padEnd(28)}${'count'.padStart(8)}${'p50 ms'.padStart(10)}${'p99 ms'.padStart(10)}`,
    ),
  );
  for (const [name, durations] of report.durations) {
    const [p50, p99] = [0.5, 0.99].map((share) => durations.percentile(share).toFixed(1));
    console.log(
      `${name.padEnd(28)}${String(durations.count).padStart(8)}${p50?.padStart(10)}${p99?.padStart(10)}`,
    );
  }
  if (already > 0) {
    console.log(`\n${already} returns were completed by an earlier run and were left alone.`);
  }
  for (const one of wrong.slice(0, 5)) console.log(`\nwrong: ${one}`);
}
