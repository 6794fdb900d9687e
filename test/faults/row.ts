import type { Random } from '../kit/random.ts';
import type { System } from './system/system.ts';

/** The input of a row. */
export interface RowContext {
  /** The system that the rows of a run share. */
  readonly system: System;
  readonly random: Random;
  /** True for the long form of an hour, false for the short form of every change. */
  readonly full: boolean;
  /**
   * The factor by which a recovery may exceed its time limit: 1 on a machine without other load. The table names it. In
   * the short form it grows with the machine's load, so read it when you need it.
   */
  readonly slack: number;
  /** Prints a line of progress. */
  say(text: string): void;
}

/** The result of a row. */
export interface RowResult {
  readonly trials: number;
  /** Number of attempts, events or calls that were in flight at the faults, over all trials. */
  readonly inFlight: number;
  readonly lost: number;
  /** Number of repeated requests with the same webhook-id. */
  readonly duplicates: number;
  readonly unexplained: number;
  /** Measured values as text: `recovery 2.1 s (median), 3.9 s (longest)`. */
  readonly figures: readonly string[];
  /** Broken promises. One is enough for the row to fail. */
  readonly problems: readonly string[];
  /**
   * Exceeded time limits, and faults without effect. Other load on the machine may cause both, so the short form repeats
   * such a row.
   */
  readonly doubts: readonly string[];
}

interface Line {
  readonly name: string;
  readonly fault: string;
  readonly mustHold: string;
  /** Maximum duration in the short and in the full form. Milliseconds. */
  readonly budgetMs: { readonly short: number; readonly full: number };
}

/** A row that breaks the shared system. Such rows run one after the other. */
export interface SharedRow extends Line {
  /** Whether its full form leaves the system in a state that would disturb other rows. Then they get a new system. */
  readonly leavesMess?: boolean;
  run(context: RowContext): Promise<RowResult>;
}

/** A row without the shared system. It runs at the same time as other rows, with a lower priority. */
export interface SeparateRow extends Line {
  runSeparately(context: Omit<RowContext, 'system'>): Promise<RowResult>;
}

/** One row of the table. */
export type Row = SharedRow | SeparateRow;

/** The value below which this share of the values lies. NaN for an empty list. */
export function percentile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}

/**
 * Which percentile of the delivery times of a slice is compared. A slice of the short form has about a hundred
 * deliveries. Their 99th percentile is a single delivery, which depends on the machine.
 */
export function comparedWait(full: boolean): { readonly share: number; readonly name: string } {
  return full ? { share: 0.99, name: 'p99' } : { share: 0.5, name: 'median' };
}

/** `2.1 s`. */
export function seconds(ms: number): string {
  return `${(ms / 1_000).toFixed(1)} s`;
}

/** The first problems of a list and the number of the others, for a report. */
export function someOf(problems: readonly string[], most = 5): string[] {
  const more = problems.length - most;
  return more > 0 ? [...problems.slice(0, most), `and ${more} more`] : [...problems];
}
