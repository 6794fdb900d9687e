import { setTimeout as sleep } from 'node:timers/promises';
import type { Publisher } from '../ledger/publisher.ts';
import { type Row, type RowContext, type RowResult, seconds } from '../row.ts';
import { metricOf } from '../system/metrics.ts';
import { nowMs, waitFor } from '../wait.ts';
import { untilCaughtUp } from './catch-up.ts';
import { unreadOf } from './in-flight.ts';
import { killAndRecord } from './kill-and-record.ts';
import { type Trial, withTrial } from './trial.ts';

const PER_SECOND = 30;
const LAG_MS = 30_000;
/** A comparison of events finds lost ones once a minute, after the listeners have read the rest. Milliseconds. */
const LOSS_MS = 150_000;
const TIMEOUT_MS = 180_000;
/** Minimum number of events that a wipe must remove. */
const TAKEN = 10;
const QUIET_MS = 120_000;

const row = (
  name: string,
  fault: string,
  run: (context: RowContext, trial: Trial) => Promise<RowResult>,
  lagMs = LAG_MS,
): Row => ({
  name: `kafka-${name}`,
  fault,
  mustHold: `API unaffected; lost 0; duplicates 0; lag gone ≤ ${lagMs / 1_000} s after`,
  budgetMs: { short: 180_000 + lagMs, full: 600_000 + 3 * lagMs },
  run: (context) => withTrial(context, {}, (trial) => run(context, trial)),
});

/** Waits until the backlog is gone, and reports when that takes too long. */
async function lagOf(context: RowContext, trial: Trial, lagMs = LAG_MS): Promise<number> {
  const lag = await untilCaughtUp(trial, nowMs(), lagMs + TIMEOUT_MS);
  if (lag > lagMs * context.slack) trial.doubts.push(`lag gone after ${seconds(lag)}`);
  return lag;
}

/** A busy machine may respond to some calls too late: one in a hundred, times the slack. */
function judgeApi({ slack }: RowContext, trial: Trial, publisher: Publisher): void {
  const all = publisher.acknowledged.length + publisher.repeats();
  if (publisher.repeats() <= (all / 100) * slack) return;
  const reason = String(publisher.lastFailure());
  trial.doubts.push(`${publisher.repeats()} of ${all} calls failed during that time: ${reason}`);
}

const killedBroker = row('killed', 'Kafka killed', async (context, trial) => {
  const { system, random, full } = context;
  const trials = full ? 5 : 1;
  const publisher = trial.publish({ perSecond: PER_SECOND });
  const lags: number[] = [];
  let inFlight = 0;
  for (let nth = 1; nth <= trials; nth += 1) {
    await sleep(random.between(500, 1_500));
    await system.broker.crash();
    await sleep(full ? random.between(5_000, 15_000) : 1_000);
    inFlight += await waitingIn(context, trial);
    await system.broker.start();
    lags.push(await lagOf(context, trial));
    context.say(`Kafka killed ${nth}/${trials}: lag gone after ${seconds(lags.at(-1) ?? 0)}`);
  }
  judgeApi(context, trial, publisher);
  if (inFlight === 0) trial.doubts.push('nothing waited for Kafka');
  const figures = [`lag gone after ${seconds(Math.max(...lags))} (longest)`];
  return trial.finish({ trials, inFlight, quietMs: QUIET_MS, figures });
});

async function waitingIn({ system }: RowContext, trial: Trial): Promise<number> {
  const { rows } = await system.pool.query<{ count: bigint }>(
    'select count(*) from returns.outbox where shop_id = $1',
    [trial.shop.id],
  );
  return Number(rows[0]?.count ?? 0n);
}

const wiped = row(
  'wiped',
  'Kafka killed, its data wiped: events that no listener has read are published again without help',
  async (context, trial) => {
    const { system, random, full } = context;
    const trials = full ? 3 : 1;
    const lags: number[] = [];
    let publisher = trial.publish({ perSecond: PER_SECOND });
    let inFlight = 0;
    for (let nth = 1; nth <= trials; nth += 1) {
      await sleep(random.between(300, 800));
      // A wipe removes records that Kafka has acknowledged and no listener has read.
      const listeners = system.members('webhooks');
      for (const one of listeners) await one.process.freeze();
      const takes = async () => {
        const unread = await unreadOf(system, trial.shop.id);
        return unread.size >= TAKEN && unread;
      };
      const what = 'Kafka holds unread events';
      const taken = await waitFor(takes, { what, withinMs: TIMEOUT_MS, everyMs: 50 });
      inFlight += taken.size;
      await system.broker.wipe();
      for (const one of listeners) one.process.thaw();
      await system.broker.start();
      lags.push(await lagOf(context, trial, LOSS_MS));
      const gone = seconds(lags.at(-1) ?? 0);
      context.say(`Kafka wiped ${nth}/${trials}: ${taken.size} taken, lag gone after ${gone}`);
      judgeApi(context, trial, publisher);
      await publisher.stop();
      if (nth < trials) publisher = trial.publish({ perSecond: PER_SECOND });
    }
    if (inFlight === 0) trial.doubts.push('the wipe removed no event');
    const republished = await metricOf(system, 'webhooks', 'events_republished_total');
    if (republished === 0) trial.doubts.push('no event was published again');
    const figures = [
      `lag gone after ${seconds(Math.max(...lags))} (longest)`,
      `${republished} events published again`,
    ];
    return trial.finish({ trials, inFlight, quietMs: QUIET_MS, figures });
  },
  LOSS_MS,
);

const STORM = { shortMs: 6_000, fullMs: 120_000, everyMs: 2_000, lookMs: 200, atLeast: 4 };

const storm = row(
  'storm',
  'rebalance storm: a member joins or leaves every 2 s',
  async (context, trial) => {
    const { system, random, full } = context;
    const publisher = trial.publish({ perSecond: PER_SECOND });
    const guest = await system.extraWebhooks();
    const end = performance.now() + (full ? STORM.fullMs : STORM.shortMs);
    let changes = 0;
    let inFlight = 0;
    while (performance.now() < end || changes < STORM.atLeast) {
      const before = nowMs();
      if (!guest.process.isRunning()) {
        guest.process.start();
        await guest.untilReady();
      } else if (random.next() < 0.5) await guest.process.stop();
      else trial.faults.push(await killAndRecord(system, trial, guest));
      changes += 1;
      await sleep(STORM.lookMs);
      inFlight += (await unreadOf(system, trial.shop.id)).size;
      await sleep(Math.max(0, STORM.everyMs - (nowMs() - before)));
    }
    if (guest.process.isRunning()) trial.faults.push(await killAndRecord(system, trial, guest));
    const lag = await lagOf(context, trial);
    judgeApi(context, trial, publisher);
    if (inFlight === 0) trial.doubts.push('no change met an event on its way');
    const figures = [`${changes} changes`, `lag gone after ${seconds(lag)}`];
    return trial.finish({ trials: changes, inFlight, quietMs: QUIET_MS, figures });
  },
);

export const kafkaRows: readonly Row[] = [killedBroker, wiped, storm];
