import { styleText } from 'node:util';
import type { Durations } from './percentiles.ts';

export interface DayReport {
  /** Order names of the file that are not in the shop. */
  readonly missing: readonly string[];
  /** Number of returns that an earlier run had processed. */
  readonly already: number;
  readonly returns: number;
  readonly closed: number;
  readonly webhooks: number;
  readonly lost: number;
  readonly repeated: number;
  readonly doubled: number;
  readonly invalid: number;
  /** Number of REST calls that were repeated while the stack was unavailable. */
  readonly repeats: number;
  readonly seconds: number;
  readonly durations: ReadonlyMap<string, Durations>;
}

export function printReport(report: DayReport): void {
  const rows: [string, string | number][] = [
    ['returns', report.returns],
    ['closed', report.closed],
    ['webhooks (valid, by id)', report.webhooks],
    ['lost', report.lost],
    ['repeated (same webhook-id again)', report.repeated],
    ['duplicates (two ids for one event)', report.doubled],
    ['invalid signatures', report.invalid],
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
  if (report.already > 0) {
    console.log(
      `\n${report.already} returns of the file were processed before and were left alone.`,
    );
  }
  if (report.missing.length > 0) {
    const some = report.missing.slice(0, 3).join(', ');
    console.log(
      `\n${report.missing.length} orders of the file are not in the shop (${some} …): run the import first.`,
    );
  }
}
