import { printable } from '../../../services/platform/text.ts';
import type { ImportSummary } from './run.ts';

const WIDTH = 40;

/** Shows a progress bar on standard error, if that is a terminal: one line, which is drawn again at each update. */
export function startProgress(
  title: string,
  total: number,
): { update(done: number): void; stop(): void } {
  const { stderr } = process;
  const draw = (share: number): void => {
    const bar = '='.repeat(Math.round(share * WIDTH)).padEnd(WIDTH);
    stderr.write(`\r${title} [${bar}] ${Math.round(share * 100)} %`);
  };
  let isShown = stderr.isTTY;
  if (isShown) draw(0);
  return {
    update(done) {
      if (isShown) draw(total > 0 ? Math.min(1, done / total) : 1);
    },
    stop() {
      if (isShown) stderr.write('\n');
      isShown = false;
    },
  };
}

/** Maximum number of errors that are printed; the rest are counted. */
const MAX_PRINTED = 50;
/** Maximum length of an error that is printed. Cells may be long. */
const MAX_LENGTH = 500;

const NOTES = {
  imported: '',
  skipped: '  (imported before)',
  corrected: '  (imported before, with other texts)',
  rejected: '',
};

/** Prints the result of an import: the counts, then each error with its line and reason. */
export function printSummary(summary: ImportSummary): void {
  console.log();
  for (const kind of ['imported', 'skipped', 'corrected', 'rejected'] as const) {
    const { returns, rows } = summary[kind];
    const note = returns > 0 ? NOTES[kind] : '';
    console.log(`${kind.padEnd(10)}${plural(returns, 'return')}, ${plural(rows, 'row')}${note}`);
  }
  for (const { line, reason } of summary.errors.slice(0, MAX_PRINTED)) {
    console.log(`  line ${line}: ${printable(reason, MAX_LENGTH)}`);
  }
  const unprinted = summary.errorCount - MAX_PRINTED;
  if (unprinted > 0) console.log(`  and ${unprinted} more`);
}

function plural(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}
