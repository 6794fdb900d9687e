import { mkdtempSync, rmSync } from 'node:fs';
import { chmod } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describeDelivery } from '../ledger/describe-delivery.ts';
import { type Row, type RowContext, type RowResult, seconds } from '../row.ts';
import type { Receipt } from '../sink/arrival-log.ts';
import { type FakedTime, fakedTime } from '../system/faked-time.ts';
import { metricOf } from '../system/metrics.ts';
import type { System } from '../system/system.ts';
import { nowMs, waitFor } from '../wait.ts';
import { type Trial, withTrial } from './trial.ts';

const STEP_S = 3_600;
const PER_SECOND = 25;
const LOAD_MS = 8_000;
/** The first pauses of the retry schedule. */
const RETRIES_MS = [5_000, 30_000];
/** Covers the second retry with its jitter, and the time until processes notice the step. */
const RETRIED_MS = 45_000;
const FLOWS_MS = 20_000;
const QUIET_MS = 150_000;
/** Each process of PostgreSQL notices the set time separately, within this time. */
const SEEN_BY_ALL_MS = 2_000;
const MIX = { submit: 1, label: 0, process: 0 };
const SUBSCRIPTIONS = { 'return.created': 3 };

/** The clock of PostgreSQL is set an hour back and an hour forward, under load and with waiting retries. */
export const databaseClockRow: Row = {
  name: 'clock-database',
  fault: 'the clock of PostgreSQL is set: an hour back, then an hour forward',
  mustHold:
    'lost 0; duplicates 0; fresh deliveries flow on; back: retries come after their pause; forward: early by at most the step, once',
  budgetMs: { short: 400_000, full: 600_000 },
  async run(context) {
    const { system } = context;
    const folder = mkdtempSync(join(tmpdir(), 'rms-faked-time-'));
    try {
      await chmod(folder, 0o755);
      const time = fakedTime(join(folder, 'offset'));
      await restart(system, time.env);
      return await withTrial(context, { subscriptions: SUBSCRIPTIONS }, (trial) =>
        steps(context, trial, time),
      );
    } finally {
      rmSync(folder, { recursive: true, force: true });
      await restart(system, {});
    }
  },
};

/** Restarts PostgreSQL, and waits for the services. */
async function restart({ database, members }: System, env: FakedTime['env']): Promise<void> {
  await database.crash();
  await database.start(env);
  const all = [...members('returns'), ...members('webhooks'), ...members('destinations')];
  await Promise.all(all.map((one) => one.untilReady()));
}

const STEPS = [
  { direction: 'back', offsetS: -STEP_S },
  { direction: 'forward', offsetS: 0 },
] as const;
type Step = (typeof STEPS)[number];

async function steps(context: RowContext, trial: Trial, time: FakedTime): Promise<RowResult> {
  const done: { waiting: number; flowsMs: number }[] = [];
  for (const step of STEPS) done.push(await oneStep(context, trial, { time, step }));
  const longest = Math.max(...done.map(({ flowsMs }) => flowsMs));
  if (longest > FLOWS_MS * context.slack) {
    trial.doubts.push(`flows only after ${seconds(longest)}`);
  }
  return trial.finish({
    trials: done.length,
    inFlight: done.reduce((sum, { waiting }) => sum + waiting, 0),
    quietMs: QUIET_MS,
    figures: [`flows after ${seconds(longest)} (longest)`],
  });
}

async function oneStep(
  { system, slack, say }: RowContext,
  trial: Trial,
  { time, step: { direction, offsetS } }: { time: FakedTime; step: Step },
): Promise<{ waiting: number; flowsMs: number }> {
  const [failing = ''] = trial.paths;
  const stepsSeen = () => metricOf(system, 'webhooks', 'webhooks_database_clock_steps_total');
  const stepsBefore = await stepsSeen();
  const startedMs = nowMs();
  const triedAt = () => system.sink.arrivals.at(failing).filter(({ at }) => at > startedMs);
  system.sink.behave([failing], { kind: 'status', status: 500 });
  const publisher = trial.publish({ perSecond: PER_SECOND, mix: MIX });
  // The oldest delivery waits for half a minute, and the others wait for it, because the circuit is open.
  const isWaiting = () => secondTries(triedAt()) >= 1;
  await waitFor(isWaiting, { what: 'a delivery has failed twice', withinMs: QUIET_MS });
  const waiting = secondTries(triedAt());
  // A delivery that arrives early must not fail again, because its next pause is five minutes.
  if (direction === 'forward') system.sink.behave([failing], { kind: 'accept' });
  const setMs = nowMs();
  await setClock(system, time, offsetS);
  const seenMs = nowMs() + SEEN_BY_ALL_MS;
  await sleep(LOAD_MS);
  await publisher.stop();
  const stoppedMs = nowMs();
  await untilThere(system, trial, (path) => path !== failing);
  const flowsMs = nowMs() - stoppedMs;
  system.sink.behave([failing], { kind: 'accept' });
  await untilThere(system, trial, () => true);
  const allMs = nowMs() - setMs;
  say(`set ${direction}: others after ${seconds(flowsMs)}, all after ${seconds(allMs)}`);
  if (allMs > (LOAD_MS + RETRIED_MS) * slack + FLOWS_MS) {
    trial.doubts.push(`set ${direction}: retries came only after ${seconds(allMs)}`);
  }
  if ((await stepsSeen()) === stepsBefore) trial.problems.push(`no metric says ${direction}`);
  // For deliveries that wait at that moment, a step forward counts as passed time.
  const excused = direction === 'forward' ? { from: setMs, to: seenMs } : undefined;
  trial.problems.push(...earlyOf(triedAt(), excused).map((text) => `set ${direction}: ${text}`));
  return { waiting, flowsMs };
}

/** Sets the clock of PostgreSQL, and waits until its responses show the new time. */
async function setClock(system: System, time: FakedTime, offsetS: number): Promise<void> {
  time.set(offsetS);
  const isSet = async () => Math.abs((await offsetOf(system)) - offsetS) < STEP_S / 2;
  await waitFor(isSet, { what: `the clock is set to ${offsetS} s`, withinMs: QUIET_MS });
}

async function untilThere(
  system: System,
  trial: Trial,
  isMeant: (path: string) => boolean,
): Promise<void> {
  const isThere = async (): Promise<boolean> => {
    await trial.ledger.refresh();
    return !trial.ledger.missing().some(({ path }) => isMeant(path));
  };
  const what = 'all has arrived';
  await waitFor(isThere, { what, withinMs: QUIET_MS, everyMs: 100 }).catch(async (cause) => {
    const [late] = trial.ledger.missing().filter(({ path }) => isMeant(path));
    throw new Error(`late: ${late && (await describeDelivery(system, late))}`, { cause });
  });
}

/** The difference to real time. Seconds. */
async function offsetOf({ pool }: System): Promise<number> {
  const { rows } = await pool.query<{ s: number }>(
    'select extract(epoch from clock_timestamp())::float8 as s',
  );
  return (rows[0]?.s ?? 0) - Date.now() / 1_000;
}

function byDelivery(receipts: readonly Receipt[]): readonly Receipt[][] {
  return [...Map.groupBy(receipts, ({ webhookId }) => webhookId).values()];
}

function secondTries(receipts: readonly Receipt[]): number {
  return byDelivery(receipts).filter((tries) => tries.length >= 2).length;
}

/** Retries that came before their pause was over, except those that waited during `excused`. */
function earlyOf(
  receipts: readonly Receipt[],
  excused?: { readonly from: number; readonly to: number },
): string[] {
  return byDelivery(receipts).flatMap((tries) =>
    tries.slice(1).flatMap((one, nth) => {
      const before = tries[nth]?.at ?? one.at;
      const isExcused = excused !== undefined && before < excused.to && one.at > excused.from;
      const isEarly = one.at - before < (RETRIES_MS[nth] ?? 0) && !isExcused;
      return isEarly ? [`retry ${nth + 1} came after ${seconds(one.at - before)}`] : [];
    }),
  );
}
