import { readFileSync } from 'node:fs';
import type { Figure } from './figure.ts';
import { cpuOfTree, type ProcessTime, readProcesses, treeOf } from './work.ts';

/** Figures with more background load are not published. 0.02 is 2 % of the machine's CPU. */
const MAX_BACKGROUND_LOAD = 0.02;
/** Linux counts CPU time in hundredths of a second. */
const TICKS_PER_SECOND = 100;

/** Counters at the start and at the end of a slice. */
export interface Reading {
  /** Seconds of a monotonic clock. */
  readonly at: number;
  readonly cores: number;
  /** Idle seconds of all cores since boot. */
  readonly idle: number;
  /** CPU-seconds of all processes of the bench and of the kernel's threads. */
  readonly own: number;
}

/** CPU time of a slice. Core-seconds. */
export interface Share {
  readonly others: number;
  readonly machine: number;
}

/**
 * The background load between two readings: the time in which cores were not idle, minus the CPU time of the bench. It
 * includes processes in other containers and the time that the hypervisor took (steal).
 */
export function shareBetween(before: Reading, after: Reading): Share {
  const machine = after.cores * (after.at - before.at);
  const busy = machine - (after.idle - before.idle);
  return { machine, others: Math.max(0, busy - (after.own - before.own)) };
}

/** Parses `/proc/stat`: the number of cores, and the time in which they were idle or waited for a disk. */
export function parseMachine(text: string): Pick<Reading, 'cores' | 'idle'> {
  const cores = text.match(/^cpu\d+ /gm)?.length ?? 0;
  const [, , , idle = 0, waiting = 0] = (/^cpu +(.*)$/m.exec(text)?.[1] ?? '')
    .split(' ')
    .map(Number);
  if (cores === 0) throw new Error('/proc/stat lists no cores');
  return { cores, idle: (idle + waiting) / TICKS_PER_SECOND };
}

/**
 * CPU time of the bench. Includes the kernel's threads, because on an idle machine they work only for the bench. The
 * kernel cuts user and system time of each process to whole ticks, so on average each process has used one tick more.
 * Without that, the sixty processes of `npm start` would count as a background load of 4 %.
 */
export function ownOf(root: number, all: readonly ProcessTime[]): number {
  const kernel = all.filter(({ isKernel }) => isKernel).reduce((sum, { own }) => sum + own, 0);
  return cpuOfTree(root, all) + treeOf(root, all).length / TICKS_PER_SECOND + kernel;
}

/** Background load of one row. */
export interface RowShares {
  /** From 0 to 1, over all slices. */
  readonly mean: number;
  readonly worst: number;
  readonly slices: number;
}

export function sharesOf(slices: readonly Share[]): RowShares {
  const sum = (of: (one: Share) => number) => slices.reduce((total, one) => total + of(one), 0);
  return {
    mean: sum(({ others }) => others) / sum(({ machine }) => machine),
    worst: Math.max(...slices.map(({ others, machine }) => others / machine)),
    slices: slices.length,
  };
}

/** The load as a figure of the row, and whether it is low enough to publish the row. */
export function backgroundLoadFigure({ mean, worst, slices }: RowShares): Figure {
  const percent = (share: number) => `${(share * 100).toFixed(1)} %`;
  return {
    name: 'background load',
    value: `${percent(mean)} (${percent(worst)} in the worst of ${slices} slices)`,
    goal: `≤ ${percent(MAX_BACKGROUND_LOAD)}`,
    met: mean <= MAX_BACKGROUND_LOAD,
  };
}

/** Measures the background load in each slice of a row. */
export interface LoadMeter {
  /** Starts a slice. Call the returned function at its end. */
  begin(): () => void;
  /** Returns the slices since the last call. */
  take(): Share[];
}

/** @param root the process that started all processes of the bench. */
export function createLoadMeter(root: number): LoadMeter {
  let slices: Share[] = [];
  const reading = (): Reading => ({
    ...parseMachine(readFileSync('/proc/stat', 'utf8')),
    own: ownOf(root, readProcesses()),
    at: performance.now() / 1_000,
  });
  return {
    begin() {
      const before = reading();
      return () => void slices.push(shareBetween(before, reading()));
    },
    take() {
      const taken = slices;
      slices = [];
      return taken;
    },
  };
}
