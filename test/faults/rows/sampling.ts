import type { Trial } from './trial.ts';

/** Maximum number of rounds of a comparison. */
const MAX_ROUNDS = 4;

/**
 * Measures in rounds until the comparison over all rounds holds. The effect of other load on the machine does not last,
 * but a bug does. A comparison that does not hold after the last round adds a doubt.
 *
 * @param o.misses describes what does not hold over all rounds so far.
 * @returns the number of rounds.
 */
export async function sampled(
  trial: Pick<Trial, 'doubts'>,
  o: { round(): Promise<void>; misses(): readonly string[] },
): Promise<number> {
  for (let rounds = 1; ; rounds += 1) {
    await o.round();
    const misses = o.misses();
    if (misses.length > 0 && rounds < MAX_ROUNDS) continue;
    trial.doubts.push(...misses);
    return rounds;
  }
}
