import { setTimeout as sleep } from 'node:timers/promises';
import { openPartnerShop, startPartner } from '../ledger/partner.ts';
import { percentile, type Row, seconds, someOf } from '../row.ts';
import { nowMs } from '../wait.ts';
import { untilCaughtUp } from './catch-up.ts';
import { unrecordedIn } from './in-flight.ts';
import { withTrial } from './trial.ts';

const TRIALS = { short: 1, full: 10 };
const PER_SECOND = 40;
const RESPONSE_MS = 40;
const HEALTHY_MS = 10_000;
const TIMEOUT_MS = 120_000;
const QUIET_MS = 90_000;

/** Kills PostgreSQL with all its processes and starts it again, under load from all sides. */
export const postgresRow: Row = {
  name: 'postgres-restart',
  fault: 'PostgreSQL killed and restarted',
  mustHold: 'lost 0; no 500, only 503 with `Retry-After`; healthy ≤ 10 s after it is ready',
  budgetMs: { short: 150_000, full: 600_000 },
  async run(context) {
    const { system, random, full } = context;
    const shop = await openPartnerShop(system);
    return withTrial(context, { shopId: shop.shopId }, async (trial) => {
      const trials = TRIALS[full ? 'full' : 'short'];
      system.sink.behave([...trial.paths], { kind: 'accept', delayMs: RESPONSE_MS });
      const publisher = trial.publish({ perSecond: PER_SECOND });
      const stream = random.fork('partner');
      const partner = startPartner({ system, shop, random: stream, perSecond: 10, publisher });
      const waits: number[] = [];
      let inFlight = 0;
      for (let nth = 1; nth <= trials; nth += 1) {
        await sleep(random.between(800, 1_500));
        await system.sink.flush();
        // The calls and attempts that are in flight at the kill.
        const hit = system.returns.reduce((sum, one) => sum + publisher.openAt(one), 0);
        inFlight += hit + system.sink.arrivals.open().length;
        const from = nowMs();
        const unrecorded = await unrecordedIn(system, trial);
        await system.database.crash();
        await sleep(random.between(200, 2_000));
        await system.database.start();
        const readyAt = nowMs();
        const [rest] = await Promise.all([
          partner.untilHealthy(TIMEOUT_MS),
          untilCaughtUp(trial, readyAt, TIMEOUT_MS),
        ]);
        const wait = Math.max(rest, nowMs() - readyAt);
        waits.push(wait);
        trial.faults.push({ from, to: nowMs(), unrecorded });
        context.say(
          `PostgreSQL ${nth}/${trials}: REST after ${seconds(rest)}, all after ${seconds(wait)}`,
        );
      }
      await partner.stop();
      trial.problems.push(...someOf(partner.violations));
      const longest = Math.max(...waits);
      if (longest > HEALTHY_MS * context.slack)
        trial.doubts.push(`healthy after ${seconds(longest)}`);
      if (inFlight === 0) trial.doubts.push('nothing was in flight');
      const refused = partner.statuses.get(503) ?? 0;
      return trial.finish({
        trials,
        inFlight,
        quietMs: QUIET_MS,
        figures: [
          `healthy after ${seconds(percentile(waits, 0.5))} (median), ${seconds(longest)} (longest)`,
          `${refused} answers of 503`,
        ],
      });
    });
  },
};
