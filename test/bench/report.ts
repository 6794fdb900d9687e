import type { Figure, Row } from './row.ts';

/** Prints what one row found. */
export function printRow(figures: readonly Figure[]): void {
  for (const { name, value, goal, met } of figures) {
    const verdict = goal ? `   goal ${goal}: ${met ? 'met' : 'MISSED'}` : '';
    process.stdout.write(`  ${name}: ${value}${verdict}\n`);
  }
}

/** Everything as one table in Markdown. */
export function summarise(results: ReadonlyMap<Row, readonly Figure[]>): string {
  const lines = [...results].flatMap(([row, figures]) =>
    figures.map(
      ({ name, value, goal, met }) =>
        `| ${row.name} | ${name} | ${value} | ${goal ?? ''} | ${goal ? (met ? 'met' : '**missed**') : ''} |`,
    ),
  );
  return ['| Row | Figure | Measured | Goal | |', '|---|---|---|---|---|', ...lines].join('\n');
}
