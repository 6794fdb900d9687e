import type { Finished } from './report.ts';

/** So often a doubt is looked into before it counts. */
const MOST_RUNS = 3;

/**
 * Runs a row, in the short form again while there is nothing but doubt about it: what others of the
 * machine did to one run does not last, a fault of ours does. A broken promise counts at once.
 */
export async function untilSure(
  { full }: { readonly full: boolean },
  say: (text: string) => void,
  attempt: (run: number) => Promise<Finished>,
): Promise<Finished> {
  const before: string[] = [];
  for (let run = 1; ; run += 1) {
    const one = await attempt(run);
    const { problems, doubts, figures } = one.outcome;
    const isSure = full || run === MOST_RUNS || problems.length > 0 || doubts.length === 0;
    if (!isSure) {
      say('  it runs again: that may have been the machine');
      before.push(...doubts);
    } else if (run === 1) return one;
    else {
      const history = `run ${run}, after: ${before.join(', ')}`;
      return { ...one, outcome: { ...one.outcome, figures: [...figures, history] } };
    }
  }
}
