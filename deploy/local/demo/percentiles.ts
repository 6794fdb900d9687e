/** The percentile for a share from 0 to 1; 0 when there are no values. */
export function percentile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((one, other) => one - other);
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? 0;
}

export class Durations {
  readonly #values: number[] = [];

  add(ms: number): void {
    this.#values.push(ms);
  }

  get count(): number {
    return this.#values.length;
  }

  /** The percentile for a share from 0 to 1, in milliseconds; 0 when there are no durations. */
  percentile(share: number): number {
    return percentile(this.#values, share);
  }
}
