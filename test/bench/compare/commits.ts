import { type Spread, spreadOf } from '../stats.ts';

/** Figures of a run by row and name. Contains only those that begin with a number. */
export type Figures = ReadonlyMap<string, number>;

export type Side = 'ours' | 'theirs';

/** A B B A A B B A …, so that a temporary disturbance of the machine affects both commits. */
export function turnsOf(pairs: number): Side[] {
  return Array.from({ length: pairs }, (_, at): Side[] =>
    at % 2 === 0 ? ['ours', 'theirs'] : ['theirs', 'ours'],
  ).flat();
}

/**
 * Parses the output of a bench of any commit: a line `row: about`, then `  name: value …` for each figure.
 *
 * @param rows the names of the rows to read.
 */
export function parseOutput(text: string, rows: readonly string[]): Figures {
  const figures = new Map<string, number>();
  let row: string | undefined;
  for (const line of text.split('\n')) {
    const [, heading] = /^([a-z0-9-]+): /.exec(line) ?? [];
    if (heading) row = rows.find((name) => name === heading);
    const [, name, value] = /^ {2}(\S.*?): (\d[\d,]*(?:\.\d+)?)(?![\d.])/.exec(line) ?? [];
    if (row && name && value) figures.set(`${row} | ${name}`, Number(value.replaceAll(',', '')));
  }
  return figures;
}

/** One figure of both commits, over all runs. */
export interface Compared {
  readonly figure: string;
  readonly ours: Spread;
  readonly theirs: Spread;
  /** Ratio of this checkout to the other commit, pair by pair. */
  readonly ratio: Spread;
}

/** The figures that every run of both commits has. */
export function comparedFigures(ours: readonly Figures[], theirs: readonly Figures[]): Compared[] {
  const names = [...(ours[0]?.keys() ?? [])].filter((name) =>
    [...ours, ...theirs].every((run) => run.has(name)),
  );
  return names.map((figure) => {
    const of = (runs: readonly Figures[]) => runs.map((run) => run.get(figure) ?? Number.NaN);
    const [mine, others] = [of(ours), of(theirs)];
    const ratio = spreadOf(mine.map((value, at) => value / (others[at] ?? Number.NaN)));
    return { figure, ours: spreadOf(mine), theirs: spreadOf(others), ratio };
  });
}

/** The comparison as a Markdown table. */
export function comparedTable(compared: readonly Compared[], commit: string): string {
  const text = ({ median, low, high }: Spread) =>
    `${number(median)} (${number(low)} to ${number(high)})`;
  const lines = compared.map(
    ({ figure, ours, theirs, ratio }) =>
      `| ${figure} | ${text(ours)} | ${text(theirs)} | ${text(ratio)} |`,
  );
  const head = `| Row | Figure | this checkout | ${commit} | ratio |`;
  return [head, '|---|---|---|---|---|', ...lines].join('\n');
}

const number = (value: number): string =>
  value.toLocaleString('en', { maximumSignificantDigits: 4 });
