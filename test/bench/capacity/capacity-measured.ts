import type { Figure } from '../figure.ts';
import type { Result } from '../report.ts';
import type { Row } from '../row.ts';
import { CAPACITY_POINTS, type CapacityPoint, coresByProcess } from '../rows/capacity-points.ts';
import { closed, PER_SECOND } from '../rows/closed.ts';
import { IDLE_STACK, idle } from '../rows/idle.ts';
import { steady50, steady200 } from '../rows/steady.ts';
import { DELIVERY_RATE, throughput } from '../rows/throughput.ts';
import { type Kept, storedName } from '../stored.ts';
import { type Coefficients, coresFor } from './capacity.ts';

const STEADY = [
  { perSecond: 50, row: steady50 },
  { perSecond: 200, row: steady200 },
];

/** The rows for the coefficients, and then those for the check. */
export const CAPACITY_ROWS: readonly Row[] = [
  idle,
  ...STEADY.map(({ row }) => row),
  throughput,
  closed,
  ...CAPACITY_POINTS.map(({ row }) => row),
];

/**
 * Computes the model's coefficients from the rows.
 *
 * @throws Error when a row or a figure is missing.
 */
export function coefficientsFrom(results: readonly Result[], source: string): Coefficients {
  const figuresOf = (row: Row) => findRow(results, row).figures;
  const burst = figuresOf(throughput);
  const idleParts = figureOf(figuresOf(idle), IDLE_STACK).parts ?? {};
  const rate = numberOf(burst, DELIVERY_RATE);
  const stored = (figures: readonly Figure[], kept: Kept) => numberOf(figures, storedName(kept));
  return {
    source,
    points: [
      { perSecond: 0, cores: mapParts(idleParts, (percent) => percent / 100) },
      ...STEADY.map(({ perSecond, row }) => ({
        perSecond,
        cores: coresByProcess(figuresOf(row), perSecond),
      })),
      { perSecond: rate, cores: coresByProcess(burst, rate) },
    ],
    returns: { perSecond: PER_SECOND, cores: coresByProcess(figuresOf(closed), PER_SECOND) },
    stored: {
      delivery: stored(burst, 'delivery'),
      event: stored(burst, 'event'),
      record: stored(burst, 'record'),
      return: stored(figuresOf(closed), 'return'),
    },
  };
}

/** A measurement, and what the model predicts for it. Cores. */
export interface Check {
  readonly point: CapacityPoint;
  readonly model: number;
  readonly measured: number;
}

export function checksFrom(results: readonly Result[], known: Coefficients): Check[] {
  return CAPACITY_POINTS.map((point) => ({
    point,
    model: coresFor(point.perSecond, 0, known).get('total') ?? 0,
    measured: numberOf(findRow(results, point.row).figures, 'cores'),
  }));
}

/** The checks as Markdown. */
export function checkTable(checks: readonly Check[]): string {
  const lines = checks.map(({ point, model, measured }) => {
    const values = [model, measured, measured / model].map((value) => value.toFixed(2));
    return `| ${point.perSecond} deliveries a second, ${point.about} | ${values.join(' | ')} |`;
  });
  const head = '| Point | Model, cores | Measured, cores | Measured to model |';
  return [head, '|---|---|---|---|', ...lines].join('\n');
}

function findRow(results: readonly Result[], row: Row): Result {
  const found = results.find((result) => result.row.name === row.name);
  if (!found) throw new Error(`row ${row.name} was not run`);
  return found;
}

function figureOf(figures: readonly Figure[], name: string): Figure {
  const found = figures.find((figure) => figure.name === name);
  if (!found) throw new Error(`no figure "${name}"`);
  return found;
}

function numberOf(figures: readonly Figure[], name: string): number {
  const { number } = figureOf(figures, name);
  if (number === undefined) throw new Error(`"${name}" is not a number`);
  return number;
}

function mapParts(parts: Readonly<Record<string, number>>, of: (value: number) => number) {
  return Object.fromEntries(Object.entries(parts).map(([name, value]) => [name, of(value)]));
}
