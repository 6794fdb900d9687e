import type { ImportSummary } from './run.ts';

/** Maximum number of errors that are printed; the rest are counted. */
const MAX_PRINTED = 50;

/** Prints the result of an import: the counts, then each error with its line and reason. */
export function printSummary(summary: ImportSummary): void {
  console.log();
  for (const kind of ['imported', 'skipped', 'rejected'] as const) {
    const { returns, rows } = summary[kind];
    const note = kind === 'skipped' && returns > 0 ? '  (imported before)' : '';
    console.log(`${kind.padEnd(10)}${plural(returns, 'return')}, ${plural(rows, 'row')}${note}`);
  }
  for (const { line, reason } of summary.errors.slice(0, MAX_PRINTED)) {
    console.log(`  line ${line}: ${reason}`);
  }
  const unprinted = summary.errorCount - MAX_PRINTED;
  if (unprinted > 0) console.log(`  and ${unprinted} more`);
}

function plural(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}
