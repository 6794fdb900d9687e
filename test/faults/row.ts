import type { Random } from '../kit/random.ts';
import type { System } from './system/system.ts';

/** What a row of the suite is run with. */
export interface RowContext {
  /** The system that the rows of a run share. */
  readonly system: System;
  readonly random: Random;
  /** The long form, of an hour; else the short one, for every change. */
  readonly full: boolean;
  /**
   * By which factor a recovery may exceed its promised time: 1 on a machine without other load. Part of the table. In
   * the short form it grows with the load of the machine, so read it when it is needed.
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
   * Times that exceeded their promise, and faults without effect. Other load on the machine may cause both, so the
   * short form runs such a row again.
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

/** A line of the table without that system. It runs beside the other rows, with a lower priority. */
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
 * Which of the waits of a slice are compared. A slice of the short form has only a hundred, and their 99th percentile
 * is one delivery, which depends on the machine.
 */
export function comparedWait(full: boolean): { readonly share: number; readonly name: string } {
  return full ? { share: 0.99, name: 'p99' } : { share: 0.5, name: 'median' };
}

/** `2.1 s`. */
export function seconds(ms: number): string {
  return `${(ms / 1_000).toFixed(1)} s`;
}

/** The first of a list and how many more there are, for a report. */
export function someOf(problems: readonly string[], most = 5): string[] {
  const more = problems.length - most;
  return more > 0 ? [...problems.slice(0, most), `and ${more} more`] : [...problems];
}
