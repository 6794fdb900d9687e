import { setTimeout as sleep } from 'node:timers/promises';
import { LOCAL_ACTOR } from '../../../deploy/local/clients.ts';
import { RELEASED } from '../../../services/contract/versions.ts';
import { insist } from '../ledger/insist.ts';
import { type Row, seconds } from '../row.ts';
import type { System } from '../system/system.ts';
import { nowMs } from '../wait.ts';
import { untilCaughtUp } from './catch-up.ts';
import { catchInTheAct, TARGETS } from './in-flight.ts';
import { type Trial, withTrial } from './trial.ts';

const PER_SECOND = 40;
const ANSWER_MS = 60;
const TRIALS = { short: 2, full: 20 };
const PATIENCE_MS = 65_000;

/**
 * A delivery of a worker that died is repeated by another process, which would by then shape it differently because the
 * shop has changed its payload version. Both bodies under the id must be equal.
 */
export const deployBetweenRow: Row = {
  name: 'deploy-between',
  fault:
    'SIGKILL of the delivery worker, and another payload version before its deliveries come again',
  mustHold: 'lost 0; the same bytes under one id; duplicates only of attempts in flight',
  budgetMs: { short: 120_000, full: 600_000 },
  run: (context) =>
    withTrial(context, {}, async (trial) => {
      const { system, random, full } = context;
      const trials = TRIALS[full ? 'full' : 'short'];
      system.sink.behave([...trial.paths], { kind: 'accept', delayMs: ANSWER_MS });
      const publisher = trial.publish({ perSecond: PER_SECOND });
      let inFlight = 0;
      let longest = 0;
      for (let nth = 1; nth <= trials; nth += 1) {
        await setVersion(system, trial, nth);
        await sleep(random.between(300, 900));
        const { worker: target } = TARGETS;
        const caught = await catchInTheAct({ system, trial, publisher, target, random });
        inFlight += caught.attempts;
        await caught.member.process.kill();
        await system.sink.flush();
        const { ports, unrecorded, at } = caught;
        trial.faults.push({ from: at, to: nowMs(), ports, unrecorded });
        await setVersion(system, trial, nth + 1);
        caught.member.process.start();
        longest = Math.max(longest, await untilCaughtUp(trial, nowMs(), PATIENCE_MS));
        await caught.member.untilReady();
        context.say(`version changed ${nth}/${trials}: ${caught.inFlight} in flight`);
      }
      const figures = [`others after ${seconds(longest)} (longest)`];
      return trial.finish({ trials, inFlight, quietMs: PATIENCE_MS, figures });
    }),
};

/** Another of the released payload versions each time. */
function setVersion(system: System, trial: Trial, nth: number): Promise<unknown> {
  const version = RELEASED[nth % RELEASED.length] ?? RELEASED[0];
  const shop = { shopId: BigInt(trial.shop.id), actor: LOCAL_ACTOR };
  return insist(system, 'setting the version', (options) =>
    system.services.webhooks.setPayloadVersion({ ...shop, version }, options),
  );
}
