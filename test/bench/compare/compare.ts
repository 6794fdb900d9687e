import type { NodeProcess } from '../../kit/process.ts';
import type { Worker } from '../child.ts';
import type { HttpLoadMethods } from '../http-load.ts';
import type { Load } from '../load.ts';
import { perThousand, startMeter, together, type Work } from '../measure.ts';
import type { Platform } from '../platform.ts';
import { type Spread, spreadOf } from '../stats.ts';

/** Warm-up time as a multiple of a slice. */
const WARM_UP = 2;

/** One of two systems to compare. */
export interface Side {
  readonly load: Load;
  readonly connections: number;
}

export interface Slice {
  readonly perSecond: number;
  /** CPU-seconds per 1,000 requests of all serving processes, PostgreSQL included, the load generator excluded. */
  readonly cpu: number;
  readonly p50: number;
  readonly requests: number;
  readonly work: Work;
}

export interface Comparison {
  readonly ours: readonly Slice[];
  readonly theirs: readonly Slice[];
  /** Ratio of this system to the reference, pair by pair. */
  readonly throughput: Spread;
  readonly cpu: Spread;
}

export interface Arena {
  readonly platform: Platform;
  readonly load: Worker<HttpLoadMethods>;
  /** Serving processes in addition to those of the platform. */
  readonly beside: readonly NodeProcess[];
  readonly pairs: number;
  readonly seconds: number;
}

/**
 * Runs two loads alternately, A B B A A B B A…, so that a disturbance of the machine affects both, and compares them
 * pair by pair.
 */
export async function compare(arena: Arena, ours: Side, theirs: Side): Promise<Comparison> {
  const slices: { ours: Slice[]; theirs: Slice[] } = { ours: [], theirs: [] };
  // The warm-up is not counted: code is compiled and connections open.
  const warming = { ...arena, seconds: WARM_UP * arena.seconds };
  await slice(warming, ours);
  await slice(warming, theirs);
  for (let pair = 0; pair < arena.pairs; pair += 1) {
    const order = pair % 2 === 0 ? (['ours', 'theirs'] as const) : (['theirs', 'ours'] as const);
    for (const side of order) {
      slices[side].push(await slice(arena, side === 'ours' ? ours : theirs));
    }
  }
  const ratio = (of: (one: Slice) => number) =>
    spreadOf(slices.ours.map((one, at) => of(one) / of(slices.theirs[at] ?? one)));
  return { ...slices, throughput: ratio((one) => one.perSecond), cpu: ratio((one) => one.cpu) };
}

async function slice({ platform, ...o }: Arena, { load, connections }: Side): Promise<Slice> {
  const stop = await startMeter(platform, o.beside);
  const result = await o.load.call('saturate', { ...load, connections, seconds: o.seconds });
  const work = await stop();
  if (result.failed > 0) {
    const outputs = [...platform.processes(), ...o.beside].map((one) => one.output());
    throw new Error(`${result.failed} requests to ${load.origin} failed: ${outputs.join(' ')}`);
  }
  // Kafka is left out, because it has no part in a request.
  const cpu = work.total - (work.byProcess.get('kafka') ?? 0);
  return {
    perSecond: result.requests / result.seconds,
    cpu: (cpu / result.requests) * 1_000,
    p50: result.p50,
    requests: result.requests,
    work,
  };
}

/** Median of one figure over the slices. */
export function medianOf(slices: readonly Slice[], of: (one: Slice) => number): number {
  return spreadOf(slices.map(of)).median;
}

/** CPU-seconds per 1,000 requests, by process. */
export function workText(slices: readonly Slice[]): string {
  const requests = slices.reduce((sum, one) => sum + one.requests, 0);
  return perThousand(together(slices.map((one) => one.work)), requests);
}

export function intervalText({ low, high, count }: Spread): string {
  return `${low.toFixed(2)} to ${high.toFixed(2)}, ${count} pairs`;
}
