import { setTimeout as sleep } from 'node:timers/promises';
import { inFlightAt } from '../ledger/judge.ts';
import { type Outcome, percentile, type Row, type RowContext, seconds } from '../row.ts';
import type { Member, System } from '../system/system.ts';
import { nowMs, waitFor } from '../wait.ts';
import { catchInTheAct, TARGETS, type Target } from './in-flight.ts';
import { type Trial, withTrial } from './trial.ts';

/** Two slow cores carry this beside the replicas that start all the time. */
const PER_SECOND = 25;
/** Answers take a moment, so that there is something in flight. Milliseconds. */
const ANSWER_MS = 40;
const TRIALS = { short: 1, full: 100 };
/**
 * A killed process is started again at once, like by a kubelet. Every so often it stays stopped until the others have
 * taken over, which shows that they do so by themselves.
 */
const ALONE_EVERY = 10;
/** Events stored until this long after the kill show when the others have gone on. Milliseconds. */
const AFTER_MS = 1_000;
/** Time for another replica to take over the work and the leases of a dead one. Milliseconds. */
const RECOVERY_MS = 5_000;
const LONGEST_MS = 65_000;

/** A row for each part that may be killed; each kill finds it in the middle of something. */
export const sigkillRows: readonly Row[] = Object.values(TARGETS).map((target) => ({
  name: `kill-${target.name.split(' ').at(-1) === 'worker' ? 'worker' : target.name.split(' ')[0]}`,
  fault: `SIGKILL of the ${target.name}`,
  mustHold: `lost 0; ${mayRepeat(target)}; recovery ≤ 5 s with another replica, leased rows ≤ 65 s`,
  budgetMs: { short: 120_000, full: 1_500_000 },
  run: (context) => withTrial(context, {}, (trial) => killOften({ context, target, trial })),
}));

function mayRepeat(target: Target): string {
  return target.service === 'webhooks' ? 'duplicates only of attempts in flight' : 'duplicates 0';
}

interface KillRow {
  readonly context: RowContext;
  readonly target: Target;
  readonly trial: Trial;
}

async function killOften({ context, target, trial }: KillRow): Promise<Outcome> {
  const { system, random, full } = context;
  const trials = TRIALS[full ? 'full' : 'short'];
  system.sink.behave([...trial.paths], { kind: 'accept', delayMs: ANSWER_MS });
  const publisher = trial.publish({ perSecond: PER_SECOND });
  const recoveries: number[] = [];
  let inFlight = 0;
  let checks = 0;
  let restarted: Member | undefined;
  for (let nth = 1; nth <= trials; nth += 1) {
    await Promise.all([sleep(random.between(100, 600)), restarted?.untilReady()]);
    const caught = await catchInTheAct({ system, trial, publisher, target, random });
    const { member } = caught;
    await member.process.kill();
    const killedAt = nowMs();
    inFlight += caught.inFlight;
    checks += caught.checks;
    const isAlone = nth % ALONE_EVERY === 1;
    if (!isAlone) member.process.start();
    // Only attempts of the worker may be repeated. The other trials explain them by the same process.
    if (target.service === 'webhooks') {
      // The sink may still have to read its requests.
      await system.sink.flush();
      const { ports, unrecorded } = caught;
      trial.faults.push({ from: caught.at, to: nowMs(), ports, unrecorded });
    }
    const recovery = await recoveryOf(trial, killedAt);
    recoveries.push(recovery);
    context.say(
      `${target.name} ${nth}/${trials}: ${caught.inFlight} in flight, back after ${seconds(recovery)}`,
    );
    if (isAlone) member.process.start();
    restarted = member;
  }
  const longest = Math.max(...recoveries);
  const limit = RECOVERY_MS * context.slack;
  const late = recoveries.filter((one) => one > limit).length;
  if (late > 0) trial.doubts.push(`${late} recoveries took over ${seconds(limit)}`);
  const outcome = await trial.finish({
    trials,
    inFlight,
    quietMs: LONGEST_MS,
    figures: [
      `recovery ${seconds(percentile(recoveries, 0.5))} (median), ${seconds(longest)} (longest)`,
      `${checks} checks`,
    ],
  });
  await restarted?.untilReady();
  return target.service === 'webhooks' ? withAttempts(trial, system, outcome) : outcome;
}

/** Says how many attempts were in flight. Counted at the end: the sink may have been behind. */
function withAttempts({ faults, paths }: Trial, { sink }: System, outcome: Outcome): Outcome {
  const receipts = [...paths].flatMap((path) => sink.book.at(path));
  const attempts = faults.reduce((sum, fault) => sum + inFlightAt(receipts, fault).length, 0);
  return { ...outcome, figures: [...outcome.figures, `${attempts} attempts in flight`] };
}

/**
 * How long after a kill the last delivery arrived of all that were stored before it, or shortly
 * after. Milliseconds.
 */
async function recoveryOf({ ledger }: Trial, killedAt: number): Promise<number> {
  const until = killedAt + AFTER_MS;
  const isBack = async (): Promise<boolean> => {
    if (nowMs() < until) return false;
    await ledger.refresh();
    return ledger.missing().every(({ at }) => at > until);
  };
  await waitFor(isBack, { what: 'the others have gone on', withinMs: LONGEST_MS, everyMs: 50 });
  const waits = ledger
    .all()
    .filter(({ at, deliveredAt }) => at <= until && (deliveredAt ?? 0) > killedAt)
    .map(({ at, deliveredAt }) => (deliveredAt ?? 0) - Math.max(at, killedAt));
  return Math.max(0, ...waits);
}
