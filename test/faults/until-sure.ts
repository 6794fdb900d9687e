import type { Finished } from './report.ts';

/** Of the tries of a row that was in doubt, this many decide for or against it. */
const MAJORITY = 2;

/**
 * Runs a row, and in the short form again when there are only doubts about it: the effect of other load on one run does
 * not last, a fault does. It passes when two of three tries do. A broken promise counts at once.
 */
export async function untilSure(
  { full }: { readonly full: boolean },
  say: (text: string) => void,
  attempt: (run: number) => Promise<Finished>,
): Promise<Finished> {
  const before: string[] = [];
  let [held, missed] = [0, 0];
  for (let run = 1; ; run += 1) {
    const one = await attempt(run);
    const { problems, doubts, figures } = one.outcome;
    if (full || problems.length > 0) return one;
    if (doubts.length === 0) held += 1;
    else missed += 1;
    if (missed === 0) return one;
    if (held === MAJORITY || missed === MAJORITY) {
      const history = `${held} of ${run} tries held, others: ${before.concat(doubts).join(', ')}`;
      return {
        ...one,
        repeats: run - 1,
        outcome: { ...one.outcome, figures: [...figures, history] },
      };
    }
    before.push(...doubts);
    say('  it runs again: that may have been the machine');
  }
}
