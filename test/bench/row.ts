import type { Figure } from './figure.ts';
import type { Platform } from './platform.ts';

/** The input of a row. */
export interface Bench {
  /** Whether to shorten everything, for development and to see that the bench works. */
  readonly quick: boolean;
  readonly platform: Platform;
  /** A folder with programs of the row `peers`. */
  readonly peerBin?: string;
  /** What later rows use of earlier ones. */
  readonly measured: {
    /** CPU-s per 1,000 deliveries of Outpost in a burst. */
    peerDelivery?: number | undefined;
  };
  /** Prints progress. */
  note(text: string): void;
  /** Returns ids of this many shops that no other row uses. */
  newShops(count: number): bigint[];
}

/** One row of the table of goals. */
export interface Row {
  readonly name: string;
  /** A description of what is measured and counted. */
  readonly about: string;
  run(bench: Bench): Promise<Figure[]>;
}

interface Goal {
  readonly name: string;
  readonly value: number;
  readonly unit?: string;
  readonly digits?: number;
  /** Additional text after the value, such as an interval. */
  readonly more?: string;
}

const text = ({ value, digits = 2, unit = '' }: Goal, bound = value) =>
  `${bound.toLocaleString('en', { minimumFractionDigits: digits, maximumFractionDigits: digits })}${unit}`;

export function atMost(bound: number, o: Goal): Figure {
  return { ...figure(o), goal: `≤ ${text(o, bound)}`, met: o.value <= bound };
}

export function atLeast(bound: number, o: Goal): Figure {
  return { ...figure(o), goal: `≥ ${text(o, bound)}`, met: o.value >= bound };
}

/** CPU-s per 1,000, and its goal: a number of deliveries of Outpost in the burst of the same run. */
export function cpuFigures({ measured }: Bench, bound: number, o: Goal): Figure[] {
  const { peerDelivery } = measured;
  if (peerDelivery === undefined) return [figure(o)];
  return [
    figure(o),
    atMost(bound, { name: `${o.name}, to a delivery of Outpost`, value: o.value / peerDelivery }),
  ];
}

/** A value without a goal. */
export function figure(o: Goal): Figure {
  return {
    name: o.name,
    value: o.more ? `${text(o)} (${o.more})` : text(o),
    number: o.value,
  };
}
