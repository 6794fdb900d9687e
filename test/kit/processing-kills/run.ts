import type pg from 'pg';
import { type Random, randomOf } from '../random.ts';
import { type Kill, WHENS } from '../simulated-process.ts';
import type { JudgedProvider } from './endpoint.ts';
import { SCENARIOS, type Scenario } from './scenarios.ts';
import { runTrial } from './trial.ts';

export interface KillOptions {
  /** A separate database of returns, without jobs. */
  readonly pool: pg.Pool;
  /**
   * Number of trials and of kills, at least. Each trial kills at another point. After the last point they begin again,
   * with a second kill.
   */
  readonly points: number;
  /** The same seed kills at the same points in the same order. */
  readonly seed: number;
  /** The commerce provider; by default the embedded one. */
  readonly commerce?: JudgedProvider;
  /** By default all. */
  readonly scenarios?: readonly Scenario[];
  readonly onProgress?: (done: number) => void;
}

export interface KillReport {
  readonly trials: number;
  /** Number of kills that came before the process had finished. */
  readonly kills: number;
  /** Number of points: before, during and after each step of each scenario. */
  readonly allPoints: number;
  /** Number of different points at which a process was killed. */
  readonly points: number;
  readonly scenarios: number;
}

interface Point {
  readonly scenario: Scenario;
  readonly kill: Kill;
}

const SECOND_KILL_PROBABILITY = 0.25;
/** Maximum number of trials for each point. */
const MAX_TRIALS = 2;

/**
 * Kills processing at its awaits, in every scenario: each connection, each statement, and each call of the provider or
 * of destinations. Asserts after each trial that every effect exists exactly once, and
 * that `return.closed` was sent once.
 *
 * @throws Error with seed, scenario and point of the first trial that fails.
 */
export async function killProcessing(o: KillOptions): Promise<KillReport> {
  const random = randomOf(o.seed);
  const all = random.shuffled(await allPoints(o));
  const killedAt = new Set<Point>();
  let kills = 0;
  let trials = 0;
  // Behind a bad network a process may end before the step at which it is to be killed. Such a trial is replaced.
  while (trials < o.points || (kills < o.points && trials < MAX_TRIALS * o.points)) {
    const trial = trials;
    trials += 1;
    const point = all[trial % all.length];
    if (!point) throw new Error('there is no point to kill at');
    const again =
      trial >= all.length || random.next() < SECOND_KILL_PROBABILITY ? [earlyKill(random)] : [];
    const result = await runTrial(o.pool, point.scenario, [point.kill, ...again], o.commerce).catch(
      (cause) => {
        const { at, when } = point.kill;
        const where = `${point.scenario.name}: killed ${when} step ${at}, then ${JSON.stringify(again)}`;
        throw new Error(`seed ${o.seed}, trial ${trial}: ${where}: ${cause.message}`, { cause });
      },
    );
    kills += result.kills;
    if (result.kills > 0) killedAt.add(point);
    o.onProgress?.(trials);
  }
  const { length: scenarios } = o.scenarios ?? SCENARIOS;
  return { trials, kills, allPoints: all.length, points: killedAt.size, scenarios };
}

/** Runs each scenario once without a kill, to count its steps. */
async function allPoints({ pool, commerce, scenarios = SCENARIOS }: KillOptions): Promise<Point[]> {
  const points: Point[] = [];
  for (const scenario of scenarios) {
    const { steps } = await runTrial(pool, scenario, [], commerce);
    for (let at = 1; at <= steps; at += 1) {
      for (const when of WHENS) points.push({ scenario, kill: { at, when } });
    }
  }
  return points;
}

/** Every process has at least this many steps. */
const EARLY_STEPS = 20;

function earlyKill(random: Random): Kill {
  return { at: random.between(1, EARLY_STEPS), when: random.pick(WHENS) };
}
