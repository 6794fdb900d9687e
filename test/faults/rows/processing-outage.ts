import { type Row, seconds } from '../row.ts';
import type { System } from '../system/system.ts';
import { nowMs, waitFor } from '../wait.ts';
import { untilCaughtUp } from './catch-up.ts';
import { asAdmin, type Grant, grant, leftBehind, refusalsSeen, revoke } from './grants.ts';
import { unrecordedIn } from './in-flight.ts';
import { type Trial, withTrial } from './trial.ts';

/** The tables that processing writes: its own results, and the ledger of the embedded commerce provider. */
const GRANTS: readonly Grant[] = [
  { right: 'insert', table: 'returns.commerce_ledger', role: 'rms_returns' },
  { right: 'insert', table: 'returns.processing_outcomes', role: 'rms_returns' },
];

const ROUNDS = { short: 1, full: 10 };
const PER_SECOND = 20;
/** With this many rejections each running job is rejected several times. */
const REFUSALS = 20;
const TIMEOUT_MS = 120_000;
const FLOWS_MS = 10_000;

/** The database of returns fails during processing. That must not count as an attempt at the commerce provider. */
export const processingOutageRow: Row = {
  name: 'outage-while-processing',
  fault: 'our own database refuses what processing writes, with jobs under way',
  mustHold:
    'no attempt counted, no job failed; lost 0; every return closes ≤ 10 s after, by itself',
  budgetMs: { short: 150_000, full: 900_000 },
  run: (context) =>
    withTrial(context, { subscriptions: { 'return.closed': 1 } }, (trial) =>
      asAdmin(context.system, async (admin) => {
        const { system, full } = context;
        const mix = { submit: 5, label: 0, process: 5 };
        const publisher = trial.publish({ perSecond: PER_SECOND, mix });
        const rounds = ROUNDS[full ? 'full' : 'short'];
        let refusals = 0;
        let longest = 0;
        let hit = 0;
        for (let round = 0; round < rounds; round += 1) {
          const before = await refusalsSeen(system, ['returns']);
          const from = nowMs();
          const unrecorded = await unrecordedIn(system, trial);
          await revoke(admin, GRANTS);
          const seen = async () => (await refusalsSeen(system, ['returns'])) - before;
          const what = 'jobs meet the outage';
          await waitFor(async () => (await seen()) >= REFUSALS, { what, withinMs: TIMEOUT_MS });
          refusals += await seen();
          const { open, counted } = await jobsOf(system, trial);
          hit += open;
          if (counted > 0) trial.problems.push(`${counted} jobs count the outage as an attempt`);
          await grant(admin, GRANTS);
          const back = nowMs();
          await untilCaughtUp(trial, back, TIMEOUT_MS);
          await waitFor(async () => (await jobsOf(system, trial)).due === 0, {
            what: 'every job has gone on',
            withinMs: TIMEOUT_MS,
          });
          longest = Math.max(longest, nowMs() - back);
          trial.faults.push({ from, to: nowMs(), unrecorded });
        }
        await publisher.stop();
        trial.problems.push(...(await leftBehind(system, trial.shop.id)));
        if (longest > FLOWS_MS * context.slack) {
          trial.doubts.push(`goes on only after ${seconds(longest)}`);
        }
        const figures = [`${refusals} refusals`, `goes on after ${seconds(longest)} (longest)`];
        return trial.finish({
          trials: rounds,
          inFlight: hit,
          quietMs: TIMEOUT_MS,
          figures,
          passesOn: true,
        });
      }),
    ),
};

/** Number of unfinished jobs, of jobs with a counted failure, and of jobs that wait for another run. */
async function jobsOf(
  { pool }: System,
  trial: Trial,
): Promise<{ readonly open: number; readonly counted: number; readonly due: number }> {
  const { rows } = await pool.query<{ open: bigint; counted: bigint; due: bigint }>(
    `select count(*) filter (where state in ('queued', 'running')) as open,
            count(*) filter (where failures > 0 or failing_since is not null) as counted,
            count(*) filter (where state = 'queued' and queued_at < now() - interval '5 s') as due
       from returns.processing_jobs where shop_id = $1`,
    [trial.shop.id],
  );
  const { open = 0n, counted = 0n, due = 0n } = rows[0] ?? {};
  return { open: Number(open), counted: Number(counted), due: Number(due) };
}
