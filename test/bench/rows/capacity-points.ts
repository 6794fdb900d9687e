import type { Receivers } from '../ends/sink.ts';
import type { Figure } from '../figure.ts';
import { BY_PROCESS, byProcessFigure } from '../measure.ts';
import { type Bench, figure, type Row } from '../row.ts';
import { measureFlow } from './steady.ts';

/** A rate at which the capacity model is compared with a measurement. It is not used for the coefficients. */
export interface CapacityPoint {
  readonly perSecond: number;
  readonly receivers: Receivers;
  readonly about: string;
  readonly row: Row;
}

export const CAPACITY_POINTS: readonly CapacityPoint[] = [
  point(100, {}, 'receivers that answer at once'),
  point(400, { answerMs: [100, 300] }, 'receivers that answer after 100 to 300 ms'),
];

function point(perSecond: number, receivers: Receivers, about: string): CapacityPoint {
  const row = {
    name: `capacity-${perSecond}`,
    about: `Open loop, ${perSecond} events a second, ${about}: to check the capacity model.`,
    run: (bench: Bench): Promise<Figure[]> => run(bench, perSecond, receivers),
  };
  return { perSecond, receivers, about, row };
}

async function run(bench: Bench, perSecond: number, receivers: Receivers): Promise<Figure[]> {
  const { work, count } = await measureFlow(bench, { perSecond, receivers });
  const byProcess = byProcessFigure(work, count);
  const each = Object.values(byProcess.parts ?? {}).reduce((sum, value) => sum + value, 0);
  return [figure({ name: 'cores', value: (each / 1_000) * perSecond }), byProcess];
}

/** Cores by process in a row with a fixed rate. */
export function coresByProcess(
  figures: readonly Figure[],
  perSecond: number,
): Record<string, number> {
  const parts = figures.find(({ name }) => name === BY_PROCESS)?.parts;
  if (!parts) throw new Error(`no figure "${BY_PROCESS}"`);
  return Object.fromEntries(
    Object.entries(parts).map(([name, value]) => [name, (value / 1_000) * perSecond]),
  );
}
