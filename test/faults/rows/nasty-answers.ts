import { setTimeout as sleep } from 'node:timers/promises';
import { type Row, type RowContext, seconds } from '../row.ts';
import type { Receipt } from '../sink/arrival-log.ts';
import { NASTY } from '../sink/protocol.ts';
import { residentMiB } from '../system/memory.ts';
import { waitFor } from '../wait.ts';
import { type Trial, withTrial } from './trial.ts';

const ATTEMPT_MS = 15_500;
const MEMORY_MIB = 50;
const FIRST_RETRY_MS = 5_000;
const QUIET_MS = 120_000;
const RETURNS = { short: 3, full: 20 };

/** Values of Retry-After that request no longer pause than the schedule. */
const GARBAGE = [
  ...['', ' ', '-1', '-99999999999', '+5', '5.5', '0x10', '1e3', 'NaN', 'Infinity', 'soon'],
  ...['3, 4', '3;4', '5 seconds', '\u00bd', 'Thu, 01 Jan 1970 00:00:00 GMT'],
  ...['Wednesday, 01-Jan-20 00:00:00 GMT', 'Thu Jan  1 00:00:00 1970', '2020-01-01T00:00:00Z'],
  ...['Mon, 99 Foo 9999 99:99:99 GMT', '0', '00', '1'],
];
/** A value that the sender must obey. Seconds. */
const WANTED_S = 8;

/** Receivers with invalid or harmful responses. The limits of time and memory and the retry schedule apply. */
export const nastyAnswersRow: Row = {
  name: 'nasty-answers',
  fault:
    'dripping, endless, huge-header, gzip-bomb, reset answers; `Retry-After` of every garbage form',
  mustHold: 'attempt ends ≤ 15.5 s; memory + ≤ 50 MB; never earlier than promised; lost 0',
  budgetMs: { short: 150_000, full: 300_000 },
  run: (context) =>
    withTrial(
      context,
      { subscriptions: { 'return.created': NASTY.length + GARBAGE.length + 1 } },
      (trial) => run(context, trial),
    ),
};

async function run(context: RowContext, trial: Trial) {
  const { system, full } = context;
  const paths = [...trial.paths];
  const nasty = paths.slice(0, NASTY.length);
  for (const [at, kind] of NASTY.entries()) system.sink.behave([nasty[at] ?? ''], { kind });
  const asking = paths.slice(NASTY.length);
  const values = [...GARBAGE, String(WANTED_S)];
  for (const [at, retryAfter] of values.entries()) {
    system.sink.behave([asking[at] ?? ''], { kind: 'status', status: 503, retryAfter });
  }
  await system.sink.flush();
  const memory = watchMemory(context);
  const publisher = trial.publish({ perSecond: 20, mix: { submit: 1, label: 0, process: 0 } });
  const count = RETURNS[full ? 'full' : 'short'];
  const enough = () => publisher.acknowledged.length >= count;
  await waitFor(enough, { what: 'some returns are submitted', withinMs: 30_000, everyMs: 5 });
  await publisher.stop();
  const all = publisher.acknowledged.length;
  // From now on all receivers behave well. Slow responses that are still open continue.
  await untilTried(context, paths);
  system.sink.behave(paths, { kind: 'accept' });
  const isOver = async () => nasty.every((path) => receiptsAt(context, path).every(ended));
  await waitFor(isOver, { what: 'the nasty attempts are over', withinMs: 60_000 });
  await trial.ledger.untilQuiet(QUIET_MS).catch(() => {});

  const longest = Math.max(...nasty.map((path) => longestOf(receiptsAt(context, path))));
  const grown = await memory.stop();
  if (longest > ATTEMPT_MS * context.slack)
    trial.doubts.push(`an attempt took ${seconds(longest)}`);
  if (grown > MEMORY_MIB) trial.problems.push(`memory grew by ${grown.toFixed(0)} MiB`);
  for (const [at, value] of values.entries()) {
    const promised = value === String(WANTED_S) ? WANTED_S * 1_000 : FIRST_RETRY_MS;
    const shortest = shortestPause(receiptsAt(context, asking[at] ?? ''));
    if (shortest < promised) {
      trial.problems.push(`Retry-After '${value}': came back after ${seconds(shortest)}`);
    }
  }
  const figures = [
    `longest attempt ${seconds(longest)}`,
    `memory + ${grown.toFixed(0)} MiB`,
    `${values.length} forms of Retry-After`,
  ];
  const inFlight = all * paths.length;
  return trial.finish({ trials: paths.length, inFlight, quietMs: QUIET_MS, figures });
}

const ended = ({ endedAt }: Receipt): boolean => endedAt !== undefined;

function receiptsAt({ system }: RowContext, path: string): readonly Receipt[] {
  return system.sink.arrivals.at(path);
}

function longestOf(receipts: readonly Receipt[]): number {
  return Math.max(0, ...receipts.map(({ at, endedAt }) => (endedAt ?? at) - at));
}

/** The shortest pause between the starts of two attempts for the same event. Milliseconds. */
function shortestPause(receipts: readonly Receipt[]): number {
  const last = new Map<string, Receipt>();
  let shortest = Number.POSITIVE_INFINITY;
  for (const receipt of receipts) {
    const before = last.get(receipt.webhookId);
    if (before) shortest = Math.min(shortest, receipt.at - before.at);
    last.set(receipt.webhookId, receipt);
  }
  return shortest;
}

async function untilTried(context: RowContext, paths: readonly string[]) {
  const isTried = () => paths.every((path) => receiptsAt(context, path).length > 0);
  await waitFor(isTried, { what: 'each endpoint was tried', withinMs: 120_000, everyMs: 50 });
}

/** Measures by how much the workers' memory grows. */
function watchMemory({ system }: RowContext): { stop(): Promise<number> } {
  const pids = system.members('webhooks').map((one) => one.process.pid());
  const first = new Map<number, number>();
  let most = 0;
  let isStopped = false;
  const running = (async () => {
    while (!isStopped) {
      for (const pid of pids) {
        const now = await residentMiB(pid);
        if (!first.has(pid)) first.set(pid, now);
        most = Math.max(most, now - (first.get(pid) ?? now));
      }
      await sleep(200);
    }
  })();
  return {
    async stop() {
      isStopped = true;
      await running;
      return most;
    },
  };
}
