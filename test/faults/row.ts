import type { Random } from './random.ts';
import type { System } from './system/system.ts';

/** What a row of the suite is run with. */
export interface RowContext {
  /** The system that the rows of a run share. */
  readonly system: System;
  readonly random: Random;
  /** The long form, of an hour; else the short one, for every change. */
  readonly full: boolean;
  /**
   * How many times as long as promised a recovery may take: 1 on a machine that does nothing else.
   * It stands in the table. In the short form it is the more, the more others use the machine
   * meanwhile: read it when it is needed.
   */
  readonly slack: number;
  /** A line about how far it is. */
  say(text: string): void;
}

/** What came of a row. */
export interface Outcome {
  readonly trials: number;
  /** What was in flight when the faults came, over all trials. */
  readonly inFlight: number;
  readonly lost: number;
  /** Requests that came again under the same webhook-id. */
  readonly duplicates: number;
  readonly unexplained: number;
  /** Measured, in words: `recovery 2.1 s (median), 3.9 s (longest)`. */
  readonly figures: readonly string[];
  /** What was broken of the promises; there is no second chance. */
  readonly problems: readonly string[];
  /**
   * What took longer than promised, and faults that hit nothing. Others of the machine do that as well:
   * the short form runs such a row again before it counts.
   */
  readonly doubts: readonly string[];
}

interface Line {
  readonly name: string;
  readonly fault: string;
  readonly mustHold: string;
  /** Longest time in the short and in the full form. Milliseconds. */
  readonly budgetMs: { readonly short: number; readonly full: number };
}

/** A line of the table that breaks the system which all of its kind share, one after the other. */
export interface SharedRow extends Line {
  /** What its full form leaves behind would disturb the rows after it: they get a fresh system. */
  readonly leavesMess?: boolean;
  run(context: RowContext): Promise<Outcome>;
}

/** A line of the table that needs nothing of that system: it runs beside the others, and yields to them. */
export interface ApartRow extends Line {
  runApart(context: Omit<RowContext, 'system'>): Promise<Outcome>;
}

/** One line of the table. */
export type Row = SharedRow | ApartRow;

/** The value below which this share of the values lie; NaN of none. */
export function percentile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}

/**
 * Which of the waits of a slice are compared. The 99th of a hundred is one delivery, and tells of the
 * machine: a slice of the short form has no more.
 */
export function comparedWait(full: boolean): { readonly share: number; readonly name: string } {
  return full ? { share: 0.99, name: 'p99' } : { share: 0.5, name: 'median' };
}

/** `2.1 s`. */
export function seconds(ms: number): string {
  return `${(ms / 1_000).toFixed(1)} s`;
}

/** At most so many, and how many more there are: for lists that go into a report. */
export function someOf(problems: readonly string[], most = 5): string[] {
  const more = problems.length - most;
  return more > 0 ? [...problems.slice(0, most), `and ${more} more`] : [...problems];
}
