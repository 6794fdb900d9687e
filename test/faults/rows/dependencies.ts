import { setTimeout as sleep } from 'node:timers/promises';
import type { Due } from '../ledger/balance.ts';
import { describeDelivery } from '../ledger/describe-delivery.ts';
import { type Row, type RowContext, type RowResult, seconds } from '../row.ts';
import type { System } from '../system/system.ts';
import { nowMs, waitFor } from '../wait.ts';
import { untilCaughtUp } from './catch-up.ts';
import { unrecordedIn } from './in-flight.ts';
import { DEFAULT_SUBSCRIPTIONS, type Trial, withTrial } from './trial.ts';

/** A dependency that the row makes unavailable. */
interface Dependency {
  readonly name: string;
  stop(system: System): Promise<void>;
  /** Resolves when it is available again. */
  start(system: System): Promise<void>;
}

const service = (name: 'returns' | 'webhooks' | 'destinations'): Dependency => ({
  name,
  stop: async (system) => {
    await Promise.all(system.members(name).map((one) => one.process.kill()));
  },
  async start(system) {
    for (const one of system.members(name)) one.process.start();
    await Promise.all(system.members(name).map((one) => one.untilReady()));
  },
});

const DEPENDENCIES: readonly Dependency[] = [
  {
    name: 'PostgreSQL',
    stop: ({ database }) => database.crash(),
    start: ({ database }) => database.start(),
  },
  { name: 'Kafka', stop: ({ broker }) => broker.crash(), start: ({ broker }) => broker.start() },
  service('returns'),
  service('webhooks'),
  service('destinations'),
  {
    name: 'receivers',
    stop: async ({ sink }) => sink.listen(false),
    start: async ({ sink }) => sink.listen(true),
  },
];

/** The short form leaves the others out: they have their own rows there, or take long. */
const IN_SHORT: ReadonlySet<string> = new Set(['PostgreSQL', 'returns']);
const DOWN_MS = { short: 3_000, full: 10_000 };
/** Calls per second. Each call makes one or two events. */
const CALLS_PER_SECOND = { short: 15, full: 130 };
const FLOWS_MS = 10_000;
/** While receivers are unavailable, a delivery fails twice: after 5 s and after 30 s more, each with a fifth of jitter. */
const SECOND_RETRY_MS = 36_000;
const FIRST_RETRY_MS = 6_000;
const FIRST_MS = 30_000;
const TIMEOUT_MS = 240_000;

/** Makes one dependency after the other unavailable, with queued tasks and waiting retries. */
export const dependenciesRow: Row = {
  name: 'dependencies',
  fault:
    'each dependency down (10 s at 200 events/s in the full form) with tasks queued and retries waiting',
  mustHold:
    'lost 0; deliveries and waiting retries flow again ≤ 10 s after it is back, by themselves',
  budgetMs: { short: 300_000, full: 1_200_000 },
  async run(context) {
    const results: RowResult[] = [];
    for (const dependency of DEPENDENCIES) {
      if (!context.full && !IN_SHORT.has(dependency.name)) continue;
      const subscriptions = { ...DEFAULT_SUBSCRIPTIONS, 'return.closed': 2 };
      results.push(
        await withTrial(context, { subscriptions }, (trial) => outage(context, trial, dependency)),
      );
    }
    return sum(results);
  },
};

async function outage(
  context: RowContext,
  trial: Trial,
  dependency: Dependency,
): Promise<RowResult> {
  const { system, full } = context;
  const form = full ? 'full' : 'short';
  const mix = { submit: 4, label: 2, process: 4 };
  const publisher = trial.publish({ perSecond: CALLS_PER_SECOND[form], mix });
  const failing = trial.shop.subscriptions.find(({ trigger }) => trigger === 'return.updated');
  await sleep(500);
  // The retries of these become due while the dependency is unavailable, or shortly after.
  system.sink.behave([failing?.path ?? ''], { kind: 'status', status: 500 });
  await sleep(1_500);
  // The first changes in a new system may take longer than that.
  const what = 'a delivery has failed and waits';
  const waiting = await waitFor(() => failuresSeen(trial, system), { what, withinMs: FIRST_MS });
  const from = nowMs();
  const before = await queuedIn(trial, system);
  const unrecorded = await unrecordedIn(system, trial);
  await dependency.stop(system);
  system.sink.behave([failing?.path ?? ''], { kind: 'accept' });
  await sleep(full ? DOWN_MS.full : DOWN_MS.short);
  const tasks = Math.max(before, await queuedIn(trial, system));
  await dependency.start(system);
  const back = nowMs();
  await publisher.stop();
  await untilCaughtUp(trial, nowMs(), TIMEOUT_MS);
  trial.faults.push({ from, to: nowMs(), unrecorded });
  const retryMs = dependency.name === 'receivers' ? SECOND_RETRY_MS : FIRST_RETRY_MS;
  const { ms: late, due } = latestOf(trial, system, { back, retryMs });
  context.say(
    `${dependency.name} unavailable: ${waiting} retries waiting, ${tasks} tasks queued, flows after ${seconds(late)}`,
  );
  // Only now the details are known.
  if (due && late > FLOWS_MS / 2)
    context.say(`  the latest: ${await describeDelivery(system, due)}`);
  if (late > FLOWS_MS * context.slack) {
    trial.doubts.push(`${dependency.name}: flows again only after ${seconds(late)}`);
  }
  const figures = [`${dependency.name}: flows after ${seconds(late)}`];
  return trial.finish({ trials: 1, inFlight: waiting + tasks, quietMs: TIMEOUT_MS, figures });
}

/** Number of rejected requests, or false while there are none. */
async function failuresSeen(trial: Trial, { sink }: System): Promise<number | false> {
  await sink.flush();
  const arrived = trial.shop.subscriptions.flatMap(({ path }) => sink.arrivals.at(path));
  const failed = arrived.filter(({ accepted }) => !accepted).length;
  return failed > 0 && failed;
}

interface Late {
  readonly ms: number;
  readonly due?: Due;
}

/**
 * The delivery with the longest delay. The delay starts when the dependency is back and the retry is due. It is 0 ms
 * when all deliveries arrived before.
 */
function latestOf(
  trial: Trial,
  { sink }: System,
  { back, retryMs }: { back: number; retryMs: number },
): Late {
  const all = trial.ledger.all().flatMap((one): Late[] => {
    const { eventId, path, at, deliveredAt } = one;
    if (deliveredAt === undefined || deliveredAt < back) return [];
    const failed = sink.arrivals.at(path).filter((one) => one.eventId === eventId && !one.accepted);
    const lastFailure = failed.at(-1)?.at;
    // The sink does not see rejected connections, so the second attempt may have been just before.
    const isBlind = retryMs > FIRST_RETRY_MS;
    const due = isBlind ? back + retryMs : lastFailure === undefined ? 0 : lastFailure + retryMs;
    return [{ ms: deliveredAt - Math.max(back, at, due), due: one }];
  });
  return all.reduce((latest, one) => (one.ms > latest.ms ? one : latest), { ms: 0 });
}

/** Number of queued tasks. None while the database is unavailable. */
async function queuedIn(trial: Trial, { pool }: System): Promise<number> {
  const text = `select count(*) from returns.processing_jobs
                 where shop_id = $1 and state in ('queued', 'running')`;
  const answer = pool.query<{ count: bigint }>(text, [trial.shop.id]);
  return answer.then(
    ({ rows }) => Number(rows[0]?.count ?? 0n),
    () => 0,
  );
}

function sum(results: readonly RowResult[]): RowResult {
  const total = (of: (one: RowResult) => number) => results.reduce((all, one) => all + of(one), 0);
  return {
    trials: total(({ trials }) => trials),
    inFlight: total(({ inFlight }) => inFlight),
    lost: total(({ lost }) => lost),
    duplicates: total(({ duplicates }) => duplicates),
    unexplained: total(({ unexplained }) => unexplained),
    figures: results.map(({ figures }) => figures[0] ?? ''),
    problems: results.flatMap(({ problems }) => problems),
    doubts: results.flatMap(({ doubts }) => doubts),
  };
}
