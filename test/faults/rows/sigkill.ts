import { setTimeout as sleep } from 'node:timers/promises';
import { inFlightAt } from '../ledger/judge.ts';
import { percentile, type Row, type RowContext, type RowResult, seconds } from '../row.ts';
import type { Member, System } from '../system/system.ts';
import { nowMs, waitFor } from '../wait.ts';
import { freezeWithWork, TARGETS, type Target } from './in-flight.ts';
import { type Trial, withTrial } from './trial.ts';

/** Two slow cores can process this rate in addition to starting replicas. */
const PER_SECOND = 25;
/** Response time, so that requests are in flight. Milliseconds. */
const RESPONSE_MS = 40;
const TRIALS = { short: 1, full: 100 };
/**
 * A killed process is started again immediately, as by a kubelet. Every tenth time it stays stopped until the others have
 * taken over, which shows that they do so without it.
 */
const ALONE_EVERY = 10;
/** Events of this long after the kill must arrive too, to show that the others continue. Milliseconds. */
const AFTER_MS = 1_000;
/** Maximum time in which another replica takes over the work and the leases of a dead process. Milliseconds. */
const RECOVERY_MS = 5_000;
const LONGEST_MS = 65_000;

/** One row for each part that may be killed. Each kill hits a process with work in flight. */
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

async function killOften({ context, target, trial }: KillRow): Promise<RowResult> {
  const { system, random, full } = context;
  const trials = TRIALS[full ? 'full' : 'short'];
  system.sink.behave([...trial.paths], { kind: 'accept', delayMs: RESPONSE_MS });
  const publisher = trial.publish({ perSecond: PER_SECOND });
  const recoveries: number[] = [];
  let inFlight = 0;
  let checks = 0;
  let restarted: Member | undefined;
  for (let nth = 1; nth <= trials; nth += 1) {
    await Promise.all([sleep(random.between(100, 600)), restarted?.untilReady()]);
    const frozen = await freezeWithWork({ system, trial, publisher, target, random });
    const { member } = frozen;
    await member.process.kill();
    const killedAt = nowMs();
    inFlight += frozen.inFlight;
    checks += frozen.checks;
    const isAlone = nth % ALONE_EVERY === 1;
    if (!isAlone) member.process.start();
    // Only attempts of the worker may be repeated. In the other trials the same process explains them.
    if (target.service === 'webhooks') {
      // The sink may not have read its requests yet.
      await system.sink.flush();
      const { ports, unrecorded } = frozen;
      trial.faults.push({ from: frozen.at, to: nowMs(), ports, unrecorded });
    }
    const recovery = await recoveryOf(trial, killedAt);
    recoveries.push(recovery);
    context.say(
      `${target.name} ${nth}/${trials}: ${frozen.inFlight} in flight, back after ${seconds(recovery)}`,
    );
    if (isAlone) member.process.start();
    restarted = member;
  }
  const longest = Math.max(...recoveries);
  const limit = RECOVERY_MS * context.slack;
  const late = recoveries.filter((one) => one > limit).length;
  if (late > 0) trial.doubts.push(`${late} recoveries took over ${seconds(limit)}`);
  const result = await trial.finish({
    trials,
    inFlight,
    quietMs: LONGEST_MS,
    figures: [
      `recovery ${seconds(percentile(recoveries, 0.5))} (median), ${seconds(longest)} (longest)`,
      `${checks} checks`,
    ],
  });
  await restarted?.untilReady();
  return target.service === 'webhooks' ? withAttempts(trial, system, result) : result;
}

/** Adds the number of attempts in flight. It is counted at the end, because the sink reads requests late. */
function withAttempts({ faults, paths }: Trial, { sink }: System, result: RowResult): RowResult {
  const receipts = [...paths].flatMap((path) => sink.arrivals.at(path));
  const attempts = faults.reduce((sum, fault) => sum + inFlightAt(receipts, fault).length, 0);
  return { ...result, figures: [...result.figures, `${attempts} attempts in flight`] };
}

/**
 * The time from a kill until the last delivery arrived of all events that were stored before it or shortly after it.
 * Milliseconds.
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
