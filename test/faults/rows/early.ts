/** An advance of the retry clock: its real time and its size. Milliseconds. */
export interface Advance {
  readonly at: number;
  readonly ms: number;
}

/**
 * Returns the attempts that arrived before their pause had passed on the retry clock, which shows real time plus its
 * advances. This works even if a process was frozen.
 *
 * @param times of the attempts, in order. Milliseconds.
 * @param o.pausesMs pauses before the second attempt, the third, and so on.
 * @returns the numbers of those attempts, from 2.
 */
export function cameEarly(
  times: readonly number[],
  o: { readonly advances: readonly Advance[]; readonly pausesMs: readonly number[] },
): number[] {
  return times.slice(1).flatMap((next, nth) => {
    const before = times[nth] ?? next;
    const moved = o.advances
      .filter(({ at }) => at > before && at <= next)
      .reduce((sum, { ms }) => sum + ms, 0);
    return next - before + moved < (o.pausesMs[nth] ?? 0) ? [nth + 2] : [];
  });
}
