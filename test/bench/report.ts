import { backgroundLoadFigure, type RowShares } from './background-load.ts';
import type { Figure } from './figure.ts';
import type { Row } from './row.ts';

const RUNS = 'to run';

/** The figures of a row, and the background load during its measurement. */
export interface Result {
  readonly row: Row;
  readonly figures: readonly Figure[];
  readonly shares: RowShares;
}

/** Whether the background load was low enough to publish the figures. */
export function mayBePublished({ shares }: Pick<Result, 'shares'>): boolean {
  return backgroundLoadFigure(shares).met === true;
}

/** The only figure of a failed row. */
export function failureOf(error: unknown): Figure {
  const value = error instanceof Error ? (error.stack ?? error.message) : String(error);
  return { name: 'the row', value: value.split('\n', 3).join(' '), goal: RUNS, met: false };
}

export function hasFailed({ figures }: Pick<Result, 'figures'>): boolean {
  return figures.some(({ goal }) => goal === RUNS);
}

/** Prints the figures of one row. */
export function printRow({ figures, shares }: Result): void {
  for (const { name, value, ...goal } of [...figures, backgroundLoadFigure(shares)]) {
    const [bound, state] = [goal.goal, goalStateOf(goal)];
    const stateText = bound ? `   goal ${bound}: ${state.toUpperCase()}` : '';
    process.stdout.write(`  ${name}: ${value}${stateText}\n`);
  }
}

/** All figures as one Markdown table, for the output. A disturbed row has only a note. */
export function summarise(results: readonly Result[]): string {
  const lines = results.flatMap((result) =>
    publishedOf(result).map(({ name, value, ...goal }) => {
      const state = goalStateOf(goal);
      const shown = state === 'missed' ? '**missed**' : state;
      return `| ${result.row.name} | ${name} | ${value} | ${goal.goal ?? ''} | ${shown} |`;
    }),
  );
  return ['| Row | Figure | Measured | Goal | |', '|---|---|---|---|---|', ...lines].join('\n');
}

/** A row without goals shows this many figures, its first. */
const WITHOUT_GOALS = 2;

/**
 * The list of docs/performance.md: figures with a goal, without spreads and parts. Those are in the output and in the
 * file of `--json`.
 */
export function goalsList(results: readonly Result[]): string {
  const lines = results.map((result) => {
    const figures = shownOf(result).map(({ name, value, ...goal }) => {
      const state = goalStateOf(goal);
      const bound = state === '' || state === 'met' ? goal.goal : `${goal.goal}: **${state}**`;
      return `${name} ${value.split(' (', 1)[0]}${bound ? ` (${bound})` : ''}`;
    });
    return `- \`${result.row.name}\`: ${figures.join('; ')}`;
  });
  return lines.join('\n');
}

function shownOf(result: Result): readonly Figure[] {
  if (!mayBePublished(result)) return publishedOf(result);
  const withGoal = result.figures.filter(({ goal }) => goal);
  return withGoal.length > 0 ? withGoal : result.figures.slice(0, WITHOUT_GOALS);
}

function publishedOf(result: Result): readonly Figure[] {
  const others = backgroundLoadFigure(result.shares);
  if (mayBePublished(result)) return [...result.figures, others];
  return [{ ...others, name: `not published: ${others.name}` }];
}

function goalStateOf({ goal, met }: Pick<Figure, 'goal' | 'met'>): string {
  if (!goal) return '';
  if (met === undefined) return 'not measured';
  return met ? 'met' : 'missed';
}
