import type { Trial } from './trial.ts';

/** Rounds of a comparison, the first among them, before it counts. */
const MOST_ROUNDS = 4;

/**
 * Measures in rounds until the comparison holds, over all rounds so far: the effect of other load on a few samples does
 * not last, a fault does. A comparison that does not hold after the last round is a doubt about the trial.
 *
 * @param o.misses of everything measured so far.
 * @returns how many rounds it took.
 */
export async function sampled(
  trial: Pick<Trial, 'doubts'>,
  o: { round(): Promise<void>; misses(): readonly string[] },
): Promise<number> {
  for (let rounds = 1; ; rounds += 1) {
    await o.round();
    const misses = o.misses();
    if (misses.length > 0 && rounds < MOST_ROUNDS) continue;
    trial.doubts.push(...misses);
    return rounds;
  }
}
