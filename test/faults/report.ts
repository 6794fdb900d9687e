import { readFile, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import type { Row, RowResult } from './row.ts';

const PAGE = fileURLToPath(new URL('../../docs/fault-suite.md', import.meta.url));
const BEGIN = '<!-- faults: begin -->';
const END = '<!-- faults: end -->';

/** A finished row. */
export interface Finished {
  readonly row: Row;
  readonly result: RowResult;
  /** Milliseconds. */
  readonly tookMs: number;
  /** Number of repeats because of doubts. Absent when one run was enough. */
  readonly repeats?: number;
}

export interface Run {
  readonly seed: number;
  readonly full: boolean;
  readonly slack: number;
  readonly startedAt: Date;
  /** Duration of the whole run. Milliseconds. */
  readonly tookMs: number;
  readonly finished: readonly Finished[];
}

export const passes = ({ result }: Finished): boolean => wrongOf(result).length === 0;

/** All problems and doubts. */
export const wrongOf = ({ problems, doubts }: RowResult): string[] => [...problems, ...doubts];

/** The table of the output in Markdown, with the problems of each row below it. */
export function markdownOf(run: Run): string {
  const lines = run.finished.map((one) => {
    const { row, result } = one;
    const cells = [
      row.fault,
      row.mustHold,
      result.trials,
      result.inFlight,
      result.lost,
      result.duplicates,
      result.unexplained,
      result.figures.join('; '),
      lasted(one.tookMs),
      resultOf(one),
    ];
    return `| ${cells.join(' | ')} |`;
  });
  return [
    ...headOf(run),
    '| Fault | Must hold | Trials | In flight | Lost | Duplicates | Unexplained | Measured | Took | |',
    '|---|---|--:|--:|--:|--:|--:|---|--:|---|',
    ...lines,
    ...problemsOf(run),
  ].join('\n');
}

/**
 * The list of docs/fault-suite.md. `--list` prints the fault of each row and what must hold, and the file of `--json` has every figure.
 * The list has the first figure of a row that holds.
 */
export function pageListOf(run: Run): string {
  const lines = run.finished.map((one) => {
    const { row, result } = one;
    const measured = passes(one) ? (result.figures[0] ?? '') : '**does not hold**';
    const repeats = result.duplicates === 0 ? '' : `, ${result.duplicates} repeats`;
    return `- \`${row.name}\` (${result.trials} trials${repeats}): ${measured}`;
  });
  return [...headOf(run), ...lines, ...problemsOf(run)].join('\n');
}

function headOf({ startedAt, full, seed, tookMs, slack }: Run): string[] {
  const day = startedAt.toISOString().slice(0, 10);
  const command = `npm run test:faults -- ${full ? '--full ' : ''}--seed ${seed}`;
  const minutes = Math.round(tookMs / 60_000);
  return [`${day}, \`${command}\`, ${minutes} min, promised times judged × ${slack}:`, ''];
}

function problemsOf({ finished }: Run): string[] {
  const problems = finished.flatMap(({ row, result }) =>
    wrongOf(result).map((problem) => `- ${row.name}: ${problem}`),
  );
  return problems.length > 0 ? ['', ...problems, ''] : [''];
}

function resultOf(one: Finished): string {
  if (!passes(one)) return '**does not hold**';
  return one.repeats === undefined ? 'holds' : `holds, after ${one.repeats} repeats`;
}

/** A duration such as `12 s` or `3 min`. */
function lasted(ms: number): string {
  return ms < 100_000 ? `${Math.round(ms / 1_000)} s` : `${Math.round(ms / 60_000)} min`;
}

/** The result as JSON. */
export function jsonOf(run: Run): string {
  const rows = run.finished.map((one) => ({
    name: one.row.name,
    passes: passes(one),
    took_ms: Math.round(one.tookMs),
    repeats: one.repeats ?? 0,
    ...one.result,
  }));
  const { seed, full, slack, startedAt: started_at } = run;
  const took_ms = Math.round(run.tookMs);
  return `${JSON.stringify({ seed, full, slack, started_at, took_ms, rows }, null, 2)}\n`;
}

/** Writes the list between its marks in docs/fault-suite.md. @throws Error when the marks are missing. */
export async function writeDocs(run: Run): Promise<void> {
  const page = await readFile(PAGE, 'utf8');
  const [before, rest] = page.split(BEGIN);
  const [, after] = rest?.split(END) ?? [];
  if (before === undefined || after === undefined)
    throw new Error(`${PAGE} has no marks for the list`);
  await writeFile(PAGE, `${before}${BEGIN}\n${pageListOf(run)}${END}${after}`);
}
