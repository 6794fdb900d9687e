import type { Finished } from './report.ts';

/** A row in doubt is decided by this many equal runs. */
const MAJORITY = 2;

/**
 * Runs a row. When the short form has only doubts, it repeats the row, which passes when two of three runs hold: the
 * effect of other load on the machine does not last, but a bug does. A broken promise is final.
 */
export async function withRepeats(
  { full }: { readonly full: boolean },
  say: (text: string) => void,
  attempt: (run: number) => Promise<Finished>,
): Promise<Finished> {
  const before: string[] = [];
  let [held, missed] = [0, 0];
  for (let run = 1; ; run += 1) {
    const one = await attempt(run);
    const { problems, doubts, figures } = one.result;
    if (full || problems.length > 0) return one;
    if (doubts.length === 0) held += 1;
    else missed += 1;
    if (missed === 0) return one;
    if (held === MAJORITY || missed === MAJORITY) {
      const history = `${held} of ${run} tries held, others: ${before.concat(doubts).join(', ')}`;
      return {
        ...one,
        repeats: run - 1,
        result: { ...one.result, figures: [...figures, history] },
      };
    }
    before.push(...doubts);
    say('  running it again, because the load of the machine may be the cause');
  }
}
