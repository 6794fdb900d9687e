import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { createEmbeddedCommerce } from '../../../services/commerce/embedded.ts';
import type { TestDatabase } from '../database.ts';
import { type NodeProcess, startNode, untilProcess } from '../process.ts';
import { randomOf } from '../random.ts';
import { newReturn, newShop, requestProcessing } from '../services/processing.ts';
import { until } from '../until.ts';
import { judge } from './judge.ts';
import { SCENARIOS } from './scenarios.ts';

const WORKER = fileURLToPath(new URL('worker-process.ts', import.meta.url));
/** Maximum time of a call of the provider, so that kills interrupt calls. Milliseconds. */
const CALL_MS = 400;
const PAUSE_MS = 600;
const DONE_MS = 60_000;

export interface ReplicaReport {
  readonly kills: number;
  /** Jobs that were running at the kills. */
  readonly jobsInFlight: number;
  /** From the last kill until every return was closed. Milliseconds. */
  readonly recoveryMs: number;
}

/**
 * Processes returns in two replicas, which are separate processes. Kills one after the other with SIGKILL while jobs run,
 * and replaces it.
 *
 * @throws AssertionError when an effect was lost or duplicated.
 */
export async function killReplicas(o: {
  readonly db: TestDatabase;
  readonly seed: number;
  readonly returns: number;
  readonly kills: number;
}): Promise<ReplicaReport> {
  const { pool } = o.db;
  const random = randomOf(o.seed);
  const scenarios = SCENARIOS.filter(
    ({ failure, cancelled }) => failure?.kind !== 'final' && !cancelled,
  );
  const submit = async (at: number) => {
    const scenario = scenarios[at % scenarios.length];
    if (!scenario) throw new Error('there is no scenario');
    const shopId = await newShop(pool, scenario.settings);
    return { scenario, of: await newReturn(pool, shopId, scenario.submission()) };
  };
  const planned = await Promise.all(Array.from({ length: o.returns }, (_, at) => submit(at)));
  const trials = [...planned];
  /** Waits until jobs run, and returns their number. Requests one more job when all are done, as on a slow machine. */
  const untilRunning = () =>
    until(async () => {
      const found = await running(o.db);
      if (found > 0) return found;
      if ((await open(o.db)) > 0) return false;
      const spare = await submit(trials.length);
      trials.push(spare);
      await requestProcessing(pool, spare.of);
      return false;
    });
  const replicas = [await startReplica(o.db.url), await startReplica(o.db.url)];
  let jobsInFlight = 0;
  let killedAt = 0;
  try {
    for (const [at, { of }] of planned.entries()) {
      await requestProcessing(pool, of);
      if (at % Math.ceil(o.returns / o.kills) !== 0) continue;
      await untilRunning();
      await sleep(random.between(0, PAUSE_MS));
      jobsInFlight += await untilRunning();
      killedAt = performance.now();
      await replicas.shift()?.kill();
      replicas.push(await startReplica(o.db.url));
    }
    await until(async (see) => see(await open(o.db)) === 0, DONE_MS);
  } finally {
    await Promise.all(replicas.map((one) => one.kill()));
  }
  const recoveryMs = performance.now() - killedAt;
  const commerce = createEmbeddedCommerce(pool);
  // The killed processes took the list of their requests with them, so only the ledger is compared.
  for (const { scenario, of } of trials) await judge(pool, { commerce, scenario, of });
  return { kills: o.kills, jobsInFlight, recoveryMs };
}

export interface ReplicaOptions {
  readonly callMs?: number;
  /** Pause before a retry. Seconds. */
  readonly retryS?: number;
  /** How far its clock is ahead of real time. Milliseconds. */
  readonly aheadMs?: number;
}

/** A module that sets the `Date` clock of a process ahead. Monotonic time and timers stay as they are. */
function clockAhead(ms: number): string {
  const code = `const real = Date.now; const now = () => real() + ${ms};
globalThis.Date = class extends Date {
  constructor(...args) { if (args.length === 0) super(now()); else super(...args); }
  static now() { return now(); }
};`;
  return `data:text/javascript,${encodeURIComponent(code)}`;
}

/** Starts processing in a separate process, and waits until it is ready. */
export async function startReplica(
  databaseUrl: string,
  o: ReplicaOptions = {},
): Promise<NodeProcess> {
  const { callMs = CALL_MS, retryS = 0, aheadMs = 0 } = o;
  const clock = aheadMs === 0 ? [] : ['--import', clockAhead(aheadMs)];
  const replica = startNode({
    name: 'replica',
    args: [...clock, WORKER, databaseUrl, String(callMs), String(retryS)],
    env: { ...process.env, NODE_OPTIONS: '' },
  });
  await untilProcess(replica, () => replica.output().includes('ready'));
  return replica;
}

const running = (db: TestDatabase) => count(db, "state = 'running'");
const open = (db: TestDatabase) => count(db, "state in ('queued', 'running')");

async function count(db: TestDatabase, which: string): Promise<number> {
  const { rowCount } = await db.pool.query(`select from processing_jobs where ${which}`);
  return rowCount ?? 0;
}
