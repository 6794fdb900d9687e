import type pg from 'pg';
import { type Random, randomOf } from '../random.ts';
import { type Death, WHENS } from './mortal.ts';
import { SCENARIOS, type Scenario } from './scenarios.ts';
import { runTrial } from './trial.ts';

export interface KillOptions {
  /** A separate database of returns, without jobs. */
  readonly pool: pg.Pool;
  /**
   * Number of trials. Each kills at another point as long as there are any. Then points are used again, with a second
   * kill.
   */
  readonly points: number;
  /** The same seed kills at the same points in the same order. */
  readonly seed: number;
  readonly onProgress?: (done: number) => void;
}

export interface KillReport {
  readonly trials: number;
  /** Deaths that struck a process at work; those planned for after its end do not count. */
  readonly deaths: number;
  /** Points there are: one before, one during and one after each step of each scenario. */
  readonly allPoints: number;
  /** Of them, the different ones that were struck. */
  readonly points: number;
  readonly scenarios: number;
}

interface Point {
  readonly scenario: Scenario;
  readonly death: Death;
}

/** In one of four trials the next process is killed too. */
const DIES_AGAIN = 0.25;

/**
 * Kills processing at its awaits: each connection, statement, call at the provider and at destinations,
 * from the request to process on, over all kinds of outcomes. After each trial every exchange order,
 * gift card and refund must exist exactly once, and `return.closed` have been sent once.
 *
 * @throws Error naming seed, scenario and point of the first trial after which that is not so.
 */
export async function killProcessing(o: KillOptions): Promise<KillReport> {
  const random = randomOf(o.seed);
  const all = random.shuffled(await allPoints(o.pool));
  const struck = new Set<Point>();
  let deaths = 0;
  for (let trial = 0; trial < o.points; trial += 1) {
    const point = all[trial % all.length];
    if (!point) throw new Error('there is no point to kill at');
    const again = trial >= all.length || random.next() < DIES_AGAIN ? [deathBy(random)] : [];
    const result = await runTrial(o.pool, point.scenario, [point.death, ...again]).catch(
      (cause) => {
        const { at, when } = point.death;
        const where = `${point.scenario.name}: killed ${when} step ${at}, then ${JSON.stringify(again)}`;
        throw new Error(`seed ${o.seed}, trial ${trial}: ${where}: ${cause.message}`, { cause });
      },
    );
    deaths += result.struck;
    if (result.struck > 0) struck.add(point);
    o.onProgress?.(trial + 1);
  }
  const { length: scenarios } = SCENARIOS;
  return { trials: o.points, deaths, allPoints: all.length, points: struck.size, scenarios };
}

/** Each scenario is run once undisturbed, to see how many steps it has. */
async function allPoints(pool: pg.Pool): Promise<Point[]> {
  const points: Point[] = [];
  for (const scenario of SCENARIOS) {
    const { steps } = await runTrial(pool, scenario, []);
    for (let at = 1; at <= steps; at += 1) {
      for (const when of WHENS) points.push({ scenario, death: { at, when } });
    }
  }
  return points;
}

/** Steps of which any life has at least as many. */
const EARLY_STEPS = 20;

function deathBy(random: Random): Death {
  return { at: random.between(1, EARLY_STEPS), when: random.pick(WHENS) };
}
