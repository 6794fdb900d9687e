/** The value that this share of all does not exceed; 0 of none. */
export function percentile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((one, other) => one - other);
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? 0;
}

/** Durations of one kind of operation. */
export class Durations {
  readonly #values: number[] = [];

  add(ms: number): void {
    this.#values.push(ms);
  }

  get count(): number {
    return this.#values.length;
  }

  /** The duration that this share of all did not exceed, in milliseconds; 0 without any. */
  percentile(share: number): number {
    return percentile(this.#values, share);
  }
}
