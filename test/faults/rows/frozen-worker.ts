import { setTimeout as sleep } from 'node:timers/promises';
import { type Row, seconds } from '../row.ts';
import { metricOf } from '../system/metrics.ts';
import { nowMs } from '../wait.ts';
import { untilCaughtUp } from './catch-up.ts';
import { catchInTheAct, TARGETS } from './in-flight.ts';
import { withTrial } from './trial.ts';

const PER_SECOND = 40;
const ANSWER_MS = 60;
/** Past its lease, in the short form only just. Milliseconds. */
const FROZEN_MS = { short: 6_000, full: 90_000 };
const TRIALS = { short: 1, full: 2 };
/** Its leases and locks in the database are free by then. Milliseconds. */
const OTHERS_MS = 65_000;
const PATIENCE_MS = 120_000;

/** A worker is frozen until others have taken its work over, and then continues. */
export const frozenWorkerRow: Row = {
  name: 'frozen-worker',
  fault: 'delivery worker SIGSTOPped past its lease (90 s in the full form), then continued',
  mustHold: 'lost 0; stale results rejected; duplicates only of attempts in flight',
  budgetMs: { short: 120_000, full: 600_000 },
  run: (context) =>
    withTrial(context, {}, async (trial) => {
      const { system, random, full } = context;
      const trials = TRIALS[full ? 'full' : 'short'];
      system.sink.behave([...trial.paths], { kind: 'accept', delayMs: ANSWER_MS });
      const publisher = trial.publish({ perSecond: PER_SECOND });
      let inFlight = 0;
      let refused = 0;
      let longest = 0;
      for (let nth = 1; nth <= trials; nth += 1) {
        await sleep(random.between(300, 900));
        const { worker: target } = TARGETS;
        const caught = await catchInTheAct({ system, trial, publisher, target, random });
        const { member } = caught;
        // Requests that were answered but not recorded are repeated too.
        inFlight += caught.attempts;
        const before = await stale(system);
        // Others have its work well before it wakes up.
        const [recovery] = await Promise.all([
          untilCaughtUp(trial, caught.at + 1_000, PATIENCE_MS),
          sleep(full ? FROZEN_MS.full : FROZEN_MS.short),
        ]);
        longest = Math.max(longest, recovery);
        member.process.thaw();
        const thawedAt = nowMs();
        const { ports, unrecorded } = caught;
        trial.faults.push({ from: caught.at, to: thawedAt, ports, unrecorded });
        await untilCaughtUp(trial, nowMs(), PATIENCE_MS);
        refused += (await stale(system)) - before;
        context.say(
          `worker frozen ${nth}/${trials}: ${caught.inFlight} in flight, others after ${seconds(recovery)}`,
        );
      }
      if (longest > OTHERS_MS * context.slack) {
        trial.doubts.push(`the others took over after ${seconds(longest)}`);
      }
      if (refused === 0) trial.doubts.push('no stale result was rejected');
      const figures = [`others after ${seconds(longest)} (longest)`, `${refused} stale results`];
      return trial.finish({ trials, inFlight, quietMs: PATIENCE_MS, figures });
    }),
};

/** Results that were rejected because their sender no longer holds the lease, over all workers. */
async function stale(system: Parameters<typeof metricOf>[0]): Promise<number> {
  return metricOf(system, 'webhooks', 'webhooks_results_stale_total');
}
