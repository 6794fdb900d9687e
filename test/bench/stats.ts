/** A median, and the bounds of its confidence interval. */
export interface Spread {
  readonly median: number;
  readonly low: number;
  readonly high: number;
  readonly count: number;
}

/** Confidence of the interval of a median. */
const CONFIDENCE = 0.95;

/**
 * Median and its 95 % interval by order statistics, which assumes no distribution. With fewer than six values the
 * interval is from the smallest to the largest.
 */
export function spreadOf(values: readonly number[]): Spread {
  const sorted = values.toSorted((a, b) => a - b);
  const count = sorted.length;
  const middle = Math.floor(count / 2);
  const upper = sorted[middle] ?? 0;
  const median = count % 2 === 1 ? upper : ((sorted[middle - 1] ?? upper) + upper) / 2;
  const cut = cutOf(count);
  return { median, low: sorted[cut] ?? 0, high: sorted[count - 1 - cut] ?? 0, count };
}

/** Number of values that the interval leaves out at each end. */
function cutOf(count: number): number {
  let outside = 0;
  let chance = 0.5 ** count;
  for (let cut = 0; cut < count / 2; cut += 1) {
    outside += 2 * chance;
    if (outside > 1 - CONFIDENCE) return Math.max(0, cut - 1);
    chance = (chance * (count - cut)) / (cut + 1);
  }
  return 0;
}

/** The slope of the least-squares line through points (x, y). Needs two different x. */
export function slopeOf(points: readonly (readonly [number, number])[]): number {
  const mean = (values: readonly number[]) => values.reduce((a, b) => a + b, 0) / values.length;
  const [meanX, meanY] = [mean(points.map(([x]) => x)), mean(points.map(([, y]) => y))];
  const products = points.reduce((sum, [x, y]) => sum + (x - meanX) * (y - meanY), 0);
  return products / points.reduce((sum, [x]) => sum + (x - meanX) ** 2, 0);
}

/** Monotonic time of the machine, the same in every process. Milliseconds. */
export function monotonicMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}
