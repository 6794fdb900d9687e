import { setTimeout as sleep } from 'node:timers/promises';
import { LOCAL_ACTOR } from '../../../deploy/local/clients.ts';
import { RELEASED } from '../../../services/contract/versions.ts';
import { repeatCall } from '../ledger/repeat-call.ts';
import { type Row, seconds } from '../row.ts';
import type { System } from '../system/system.ts';
import { nowMs } from '../wait.ts';
import { untilCaughtUp } from './catch-up.ts';
import { freezeWithWork, TARGETS } from './in-flight.ts';
import { type Trial, withTrial } from './trial.ts';

const PER_SECOND = 40;
const RESPONSE_MS = 60;
const TRIALS = { short: 2, full: 20 };
const TIMEOUT_MS = 65_000;

/**
 * Kills a worker, and then changes the payload version of the shop. Another process repeats the worker's deliveries. Both
 * bodies with one id must be equal, although the version has changed.
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
      system.sink.behave([...trial.paths], { kind: 'accept', delayMs: RESPONSE_MS });
      const publisher = trial.publish({ perSecond: PER_SECOND });
      let inFlight = 0;
      let longest = 0;
      for (let nth = 1; nth <= trials; nth += 1) {
        await setVersion(system, trial, nth);
        await sleep(random.between(300, 900));
        const { worker: target } = TARGETS;
        const frozen = await freezeWithWork({ system, trial, publisher, target, random });
        inFlight += frozen.attempts;
        await frozen.member.process.kill();
        await system.sink.flush();
        const { ports, unrecorded, at } = frozen;
        trial.faults.push({ from: at, to: nowMs(), ports, unrecorded });
        await setVersion(system, trial, nth + 1);
        frozen.member.process.start();
        longest = Math.max(longest, await untilCaughtUp(trial, nowMs(), TIMEOUT_MS));
        await frozen.member.untilReady();
        context.say(`version changed ${nth}/${trials}: ${frozen.inFlight} in flight`);
      }
      const figures = [`others after ${seconds(longest)} (longest)`];
      return trial.finish({ trials, inFlight, quietMs: TIMEOUT_MS, figures });
    }),
};

/** Another released payload version each time. */
function setVersion(system: System, trial: Trial, nth: number): Promise<unknown> {
  const version = RELEASED[nth % RELEASED.length] ?? RELEASED[0];
  const shop = { shopId: BigInt(trial.shop.id), actor: LOCAL_ACTOR };
  return repeatCall(system, 'setting the version', (options) =>
    system.services.webhooks.setPayloadVersion({ ...shop, version }, options),
  );
}
