import type { Finished } from './report.ts';

/** Of the tries of a row that was once in doubt, so many must hold, and as many decide against it. */
const MAJORITY = 2;

/**
 * Runs a row, in the short form again when there is nothing but doubt about it: what others of the
 * machine did to one run does not last, a fault of ours does. It holds when two of three tries do. A broken
 * promise counts at once.
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
