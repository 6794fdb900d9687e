import { setTimeout as sleep } from 'node:timers/promises';
import type { Row } from '../row.ts';
import { metricOf } from '../system/metrics.ts';
import { nowMs } from '../wait.ts';
import { untilCaughtUp } from './catch-up.ts';
import { asAdmin, leftBehind } from './grants.ts';
import { withTrial } from './trial.ts';

const PER_SECOND = { short: 15, full: 60 };
const TRIALS = { short: 1, full: 3 };
const FAILS_MS = 8_000;
const QUIET_MS = 120_000;
/** Every call makes one event for two subscriptions. */
const SUBSCRIPTIONS = { 'return.created': 2 };
const MIX = { submit: 1, label: 0, process: 0 };

/** Every insert violates it: SQLSTATE 23514, which the data of one record could also cause. */
const BREAK = 'alter table webhooks.payloads add constraint broken check (false) not valid';
const MEND = 'alter table webhooks.payloads drop constraint broken';

/** Each record fails, as if its own data were the reason. Then the cause is removed. */
export const failingRecordsRow: Row = {
  name: 'failing-records',
  fault: 'every record fails in its listener for 8 s, for a reason that is no outage',
  mustHold: 'lost 0; duplicates 0; no poison records, no manual step',
  budgetMs: { short: 150_000, full: 400_000 },
  run: (context) =>
    asAdmin(context.system, (admin) =>
      withTrial(context, { subscriptions: SUBSCRIPTIONS }, async (trial) => {
        const { system, full } = context;
        const form = full ? 'full' : 'short';
        const failuresOf = () => metricOf(system, 'webhooks', 'events_failed_total');
        trial.publish({ perSecond: PER_SECOND[form], mix: MIX });
        await sleep(1_000);
        let inFlight = 0;
        let failures = 0;
        for (let nth = 0; nth < TRIALS[form]; nth += 1) {
          const before = await failuresOf();
          await admin.query(BREAK);
          try {
            await sleep(FAILS_MS);
            await trial.ledger.refresh();
            inFlight += trial.ledger.missing().length;
          } finally {
            await admin.query(MEND);
          }
          failures += (await failuresOf()) - before;
          if (nth + 1 < TRIALS[form]) await untilCaughtUp(trial, nowMs(), QUIET_MS);
        }
        if (failures === 0) trial.doubts.push('no record failed');
        const figures = [`${inFlight} deliveries waited`, `${failures} failed tries of records`];
        const end = { trials: TRIALS[form], inFlight, quietMs: QUIET_MS, figures };
        const result = await trial.finish(end);
        const left = await leftBehind(system, trial.shop.id);
        return { ...result, problems: [...result.problems, ...left] };
      }),
    ),
};
