import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { loadConfig } from '../../../services/platform/process/config.ts';
import { webhooksShape } from '../../../services/webhooks/config.ts';
import { startWebhooks } from '../../../services/webhooks/start.ts';
import { submitOnce } from '../ledger/submit-once.ts';
import type { Row, RowContext, RowResult } from '../row.ts';
import type { Receipt } from '../sink/arrival-log.ts';
import type { Member, System } from '../system/system.ts';
import { nowMs, waitFor } from '../wait.ts';
import { type Advance, cameEarly } from './early.ts';
import { type Trial, withTrial } from './trial.ts';

const SHIFTED = fileURLToPath(new URL('../system/shifted-clock.ts', import.meta.url));
const MUST_HOLD = 'no retry early, nothing lost';
const SUBSCRIPTIONS = { 'return.created': 2 };
const QUIET_MS = 120_000;
const RETRY_MS = 5_000;
const SECOND_MS = 1_000;
const FEW_PER_SECOND = 3;
const ONLY_SUBMIT = { submit: 1, label: 0, process: 0 };

/** Number of jumps. Each is different, see shifted-clock.ts. */
const JUMPS = { short: 1, full: 6 };

/** The wall clock of workers jumps. Workers use the clock of the database, so no retry is early or lost. */
const wallClock: Row = {
  name: 'clock-wall',
  fault: "jumps of a worker's wall clock: hours forward, days back, a month forward",
  mustHold: MUST_HOLD,
  budgetMs: { short: 120_000, full: 240_000 },
  run: (context) =>
    withTrial(context, { subscriptions: SUBSCRIPTIONS }, (trial) =>
      withoutWorkers(context, () => jump(context, trial)),
    ),
};

async function jump({ system, full }: RowContext, trial: Trial): Promise<RowResult> {
  const worker = await system.extraWebhooks();
  system.sink.ignoreTime(true);
  worker.process.start(['--import', SHIFTED]);
  try {
    await worker.untilReady();
    const [failing = ''] = trial.paths;
    let inFlight = 0;
    const jumps = full ? JUMPS.full : JUMPS.short;
    for (let nth = 1; nth <= jumps; nth += 1) {
      system.sink.behave([failing], { kind: 'status', status: 500 });
      await system.sink.flush();
      const before = system.sink.arrivals.at(failing).length;
      const publisher = trial.publish({ perSecond: FEW_PER_SECOND, mix: ONLY_SUBMIT });
      const isTried = () => system.sink.arrivals.at(failing).length > before;
      await waitFor(isTried, { what: 'a delivery has failed', withinMs: QUIET_MS });
      await publisher.stop();
      // A retry waits. Now the clock jumps.
      inFlight += system.sink.arrivals.at(failing).length - before;
      process.kill(worker.process.pid(), 'SIGUSR2');
      await sleep(SECOND_MS);
      system.sink.behave([failing], { kind: 'accept' });
      await trial.ledger.untilQuiet(QUIET_MS);
    }
    const shortest = pausesOf(system.sink.arrivals.at(failing)).sort((a, b) => a - b)[0] ?? 0;
    if (shortest < RETRY_MS) trial.problems.push(`a retry came after ${shortest.toFixed(0)} ms`);
    const figures = [`earliest retry after ${(shortest / SECOND_MS).toFixed(1)} s of 5 s`];
    return await trial.finish({ trials: jumps, inFlight, quietMs: QUIET_MS, figures });
  } finally {
    await worker.process.kill();
    system.sink.ignoreTime(false);
  }
}

/** The schedule: time on the retry clock before the second attempt, the third, and so on. Seconds. */
const PAUSES_S = [5, 30, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400];
const ATTEMPTS = { short: 4, full: 11 };
/** The clock is advanced to this time before an attempt. The test waits for the rest. Seconds. */
const REST_S = 1;
const JITTER = 1.2;

/** The retry clock is advanced by hours and days, to shortly before the next attempt and then past it. */
const retryClock: Row = {
  name: 'clock-retry',
  fault: 'jumps of the retry clock, along the schedule of three days',
  mustHold: MUST_HOLD,
  budgetMs: { short: 120_000, full: 240_000 },
  run: (context) =>
    withTrial(context, { subscriptions: SUBSCRIPTIONS }, (trial) =>
      withoutWorkers(context, () => advance(context, trial)),
    ),
};

async function advance({ system, full }: RowContext, trial: Trial): Promise<RowResult> {
  const webhooks = await startHere(system);
  try {
    const [failing = ''] = trial.paths;
    system.sink.behave([failing], { kind: 'status', status: 500 });
    // One delivery, so that the circuit stays closed. With an open circuit other pauses apply.
    await submitOnce(system, trial.shop, { withinMs: QUIET_MS });
    const tries = () => system.sink.arrivals.at(failing).length;
    await waitFor(() => tries() > 0, { what: 'the first attempt', withinMs: QUIET_MS });
    const [first] = system.sink.arrivals.at(failing);
    const ofFirst = () => system.sink.arrivals.withId(first?.webhookId ?? '').length;
    const attempts = full ? ATTEMPTS.full : ATTEMPTS.short;
    const advances: Advance[] = [];
    const move = (s: number): void => {
      advances.push({ at: nowMs(), ms: s * SECOND_MS });
      webhooks.advanceClock(s);
    };
    for (let nth = 1; nth < attempts; nth += 1) {
      const pause = PAUSES_S[nth - 1] ?? 0;
      // A result that is recorded after the advance would make the retry due that much later.
      const isWritten = async () => (await attemptsOf(system, first)) === nth;
      const written = `attempt ${nth} is written down`;
      await waitFor(isWritten, { what: written, withinMs: QUIET_MS });
      if (nth === attempts - 1) system.sink.behave([failing], { kind: 'accept' });
      move(pause - 2 * REST_S);
      await sleep(SECOND_MS / 2);
      await system.sink.flush();
      // After the attempt has arrived, an advance would shorten the next pause.
      if (ofFirst() === nth) move(2 * REST_S + pause * (JITTER - 1));
      const what = `attempt ${nth + 1}`;
      await waitFor(() => ofFirst() > nth, { what, withinMs: QUIET_MS });
    }
    const times = system.sink.arrivals.withId(first?.webhookId ?? '').map(({ at }) => at);
    const pausesMs = PAUSES_S.map((s) => s * SECOND_MS);
    const early = cameEarly(times, { advances, pausesMs });
    trial.problems.push(...early.map((nth) => `attempt ${nth} came early`));
    const figures = [`${attempts} attempts of the schedule`];
    return await trial.finish({ trials: attempts, inFlight: tries(), quietMs: QUIET_MS, figures });
  } finally {
    await webhooks.stop();
  }
}

/** Number of recorded attempts of a waiting delivery. */
async function attemptsOf({ pool }: System, receipt: Receipt | undefined): Promise<number> {
  const { rows } = await pool.query<{ attempts: number }>(
    'select attempts from webhooks.queue where id = $1',
    [receipt?.webhookId.replace(/^msg_/, '')],
  );
  return rows[0]?.attempts ?? 0;
}

/** Runs the webhooks service in this process, where the test can advance its retry clock. */
async function startHere(system: System) {
  const { process: model } = await system.extraWebhooks();
  const own = { PORT: '0', METRICS_PORT: '0', DATABASE_POOL_MAX: '6', LOG_LEVEL: 'silent' };
  return startWebhooks(loadConfig(webhooksShape, { ...model.env, ...own }));
}

/** Stops the usual workers during `work`, so that the worker with the other clock sends everything. */
async function withoutWorkers<T>({ system }: RowContext, work: () => Promise<T>): Promise<T> {
  const usual: readonly Member[] = system.members('webhooks');
  await Promise.all(usual.map((one) => one.process.stop()));
  try {
    return await work();
  } finally {
    for (const one of usual) one.process.start();
    await Promise.all(usual.map((one) => one.untilReady()));
  }
}

/** The pauses between the attempts of one delivery. Milliseconds. */
function pausesOf(receipts: readonly Receipt[]): number[] {
  const last = new Map<string, number>();
  return receipts.flatMap(({ webhookId, at }) => {
    const before = last.get(webhookId);
    last.set(webhookId, at);
    return before === undefined ? [] : [at - before];
  });
}

export const clockRows: readonly Row[] = [wallClock, retryClock];
