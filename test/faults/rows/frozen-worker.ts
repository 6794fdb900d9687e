import { setTimeout as sleep } from 'node:timers/promises';
import { type Row, seconds } from '../row.ts';
import { metricOf } from '../system/metrics.ts';
import { nowMs } from '../wait.ts';
import { untilCaughtUp } from './catch-up.ts';
import { freezeWithWork, TARGETS } from './in-flight.ts';
import { withTrial } from './trial.ts';

const PER_SECOND = 40;
const RESPONSE_MS = 60;
/** Longer than its lease, in the short form only slightly. Milliseconds. */
const FROZEN_MS = { short: 6_000, full: 90_000 };
const TRIALS = { short: 1, full: 2 };
/** After this time the database has released the worker's leases and locks. Milliseconds. */
const OTHERS_MS = 65_000;
const TIMEOUT_MS = 120_000;

/** Freezes a worker until others have taken over its work, and then lets it continue. */
export const frozenWorkerRow: Row = {
  name: 'frozen-worker',
  fault: 'delivery worker SIGSTOPped past its lease (90 s in the full form), then continued',
  mustHold: 'lost 0; stale results rejected; duplicates only of attempts in flight',
  budgetMs: { short: 120_000, full: 600_000 },
  run: (context) =>
    withTrial(context, {}, async (trial) => {
      const { system, random, full } = context;
      const trials = TRIALS[full ? 'full' : 'short'];
      system.sink.behave([...trial.paths], { kind: 'accept', delayMs: RESPONSE_MS });
      const publisher = trial.publish({ perSecond: PER_SECOND });
      let inFlight = 0;
      let refused = 0;
      let longest = 0;
      for (let nth = 1; nth <= trials; nth += 1) {
        await sleep(random.between(300, 900));
        const { worker: target } = TARGETS;
        const frozen = await freezeWithWork({ system, trial, publisher, target, random });
        const { member } = frozen;
        // Requests with a response but without a recorded result are repeated too.
        inFlight += frozen.attempts;
        const before = await stale(system);
        // Others have taken over its work before it continues.
        const [recovery] = await Promise.all([
          untilCaughtUp(trial, frozen.at + 1_000, TIMEOUT_MS),
          sleep(full ? FROZEN_MS.full : FROZEN_MS.short),
        ]);
        longest = Math.max(longest, recovery);
        member.process.thaw();
        const thawedAt = nowMs();
        const { ports, unrecorded } = frozen;
        trial.faults.push({ from: frozen.at, to: thawedAt, ports, unrecorded });
        await untilCaughtUp(trial, nowMs(), TIMEOUT_MS);
        refused += (await stale(system)) - before;
        context.say(
          `worker frozen ${nth}/${trials}: ${frozen.inFlight} in flight, others after ${seconds(recovery)}`,
        );
      }
      if (longest > OTHERS_MS * context.slack) {
        trial.doubts.push(`the others took over after ${seconds(longest)}`);
      }
      if (refused === 0) trial.doubts.push('no stale result was rejected');
      const figures = [`others after ${seconds(longest)} (longest)`, `${refused} stale results`];
      return trial.finish({ trials, inFlight, quietMs: TIMEOUT_MS, figures });
    }),
};

/** Number of results that were rejected because their sender no longer owns the lease, over all workers. */
async function stale(system: Parameters<typeof metricOf>[0]): Promise<number> {
  return metricOf(system, 'webhooks', 'webhooks_results_stale_total');
}
