import { setTimeout as sleep } from 'node:timers/promises';
import { SERVICE_NAMES } from '../../../services/platform/services.ts';
import { type Row, seconds } from '../row.ts';
import type { Member, System } from '../system/system.ts';
import { nowMs, waitFor } from '../wait.ts';
import { killAndRecord } from './kill-and-record.ts';
import { withTrial } from './trial.ts';

const SUBSCRIPTIONS = 20;
const BACKLOG = { short: 600, full: 20_000 };
const KILLS_OF_EACH = { short: 1, full: 8 };
/** Response time of the sink, so that the backlog stays during the kills. Milliseconds. */
const SLOW_MS = 1_500;
const FILL_PER_SECOND = 200;
const FILL_MS = 300_000;
const QUIET_MS = 400_000;

/** Every process is killed repeatedly during a backlog, without any manual step. */
export const crashLoopRow: Row = {
  name: 'crash-loop',
  fault:
    'crash loop: kills of every process (8 each in the full form) while a backlog (20,000) stands',
  mustHold: 'lost 0, no poison records, no manual step',
  budgetMs: { short: 180_000, full: 1_200_000 },
  run: (context) =>
    withTrial(context, { subscriptions: { 'return.created': SUBSCRIPTIONS } }, async (trial) => {
      const { system, random, full } = context;
      const form = full ? 'full' : 'short';
      if (full) await system.startFront();
      const poisonBefore = await poisonIn(system);
      system.sink.behave([...trial.paths], { kind: 'accept', delayMs: SLOW_MS });
      const mix = { submit: 1, label: 0, process: 0 };
      const filler = trial.publish({ perSecond: FILL_PER_SECOND, mix });
      const isFull = async (): Promise<boolean> => {
        await trial.ledger.refresh();
        return trial.ledger.missing().length >= BACKLOG[form];
      };
      await waitFor(isFull, { what: 'a backlog stands', withinMs: FILL_MS, everyMs: 100 });
      await filler.stop();
      const backlog = trial.ledger.missing().length;
      context.say(`crash loop: a backlog of ${backlog} stands`);
      trial.publish({ perSecond: 5 });

      const victims = membersOf(system);
      const plan = Array.from({ length: KILLS_OF_EACH[form] }, () => random.shuffled(victims));
      let inFlight = 0;
      for (const member of plan.flat()) {
        await sleep(random.between(200, 1_000));
        if (!member.process.isRunning()) continue;
        await trial.ledger.refresh();
        inFlight += trial.ledger.missing().length > 0 ? 1 : 0;
        trial.faults.push(await killAndRecord(system, trial, member));
        member.process.start();
      }
      const left = trial.ledger.missing().length;
      const kills = plan.flat().length;
      context.say(`crash loop: ${kills} kills, ${left} still to be delivered`);
      await Promise.all(victims.map((one) => one.untilReady()));
      system.sink.behave([...trial.paths], { kind: 'accept' });
      const began = nowMs();
      const result = await trial.finish({
        trials: kills,
        inFlight,
        quietMs: QUIET_MS,
        // All processes start together. The running ones may lose their leases for some seconds.
        passesOn: true,
        figures: [],
      });
      const poison = (await poisonIn(system)) - poisonBefore;
      const problems = [...result.problems];
      if (poison > 0) problems.push(`${poison} poison records were stored`);
      const doubts = [...result.doubts];
      if (inFlight < kills) doubts.push(`only ${inFlight} of ${kills} kills met a backlog`);
      const figures = [
        `backlog ${backlog}, ${left} left after the kills`,
        `all there ${seconds(nowMs() - began)} later`,
        `${poison} poison records`,
        ...result.figures,
      ];
      return { ...result, figures, problems, doubts };
    }),
};

function membersOf(system: System): Member[] {
  const names = [...SERVICE_NAMES, 'gateway' as const];
  return names.flatMap((name) => system.members(name)).filter((one) => one.process.isRunning());
}

async function poisonIn({ pool }: System): Promise<number> {
  const { rows } = await pool.query<{ count: bigint }>(
    `select (select count(*) from webhooks.poison_records) + (select count(*) from returns.poison_records) as count`,
  );
  return Number(rows[0]?.count ?? 0n);
}
