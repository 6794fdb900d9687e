import type pg from 'pg';
import type { Return } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { createEmbeddedCommerce } from '../../../services/returns/commerce/embedded.ts';
import type {
  CommerceProvider,
  CommerceRequest,
} from '../../../services/returns/commerce/provider.ts';
import { claimJobs, PROCESSING } from '../../../services/returns/processing/jobs.ts';
import { runJob } from '../../../services/returns/processing/run.ts';
import {
  destinations,
  endLeases,
  newReturn,
  newShop,
  requestProcessing,
  silent,
} from '../services/processing.ts';
import { until } from '../until.ts';
import { judge } from './judge.ts';
import { commerceOf, type Death, destinationsOf, type Life, mortal, poolOf } from './mortal.ts';
import type { Scenario } from './scenarios.ts';

const never = new AbortController().signal;
/** More lives than any trial needs. */
const MAX_LIVES = 20;

export interface TrialResult {
  /** How many kills took effect. A trial whose kills come after the end proves nothing. */
  readonly struck: number;
  /** Steps of the first life. */
  readonly steps: number;
}

/**
 * Lets a return be processed by processes that die as planned, one after the other, then by one that lives. Each gets a
 * new request to process, as from a caller who got no answer.
 *
 * @throws Error with what was lost or duplicated.
 */
export async function runTrial(
  pool: pg.Pool,
  scenario: Scenario,
  deaths: readonly Death[],
): Promise<TrialResult> {
  const commerce = createEmbeddedCommerce(pool);
  const asked: CommerceRequest[] = [];
  const provider = recording(commerce, asked);
  const of = await newReturn(pool, await newShop(pool, scenario.settings), scenario.submission());
  const { failure } = scenario;
  if (failure) await commerce.failNext({ returnId: of.id, ...failure });

  const lives: Life[] = [];
  for (const death of [...deaths, undefined]) {
    const life = mortal(death);
    lives.push(life);
    // Errors of a dead process are ignored.
    const lived = live(life, { pool, provider, of });
    await (death ? lived.catch(() => {}) : lived);
    await endLeases(pool);
  }
  await Promise.all(lives.map((life) => life.finished()));
  await untilQuiet(pool);
  await finish(pool, provider, of);
  await judge(pool, { commerce, asked, scenario, of });
  const [first] = lives;
  return { struck: lives.filter((life) => life.isDead).length, steps: first?.steps ?? 0 };
}

interface World {
  readonly pool: pg.Pool;
  readonly provider: CommerceProvider;
  readonly of: Return;
}

/** One process: requests processing, and works until no job is due; twice, for jobs that failed the first time. */
async function live(life: Life, world: World): Promise<void> {
  const pool = poolOf(life, world.pool);
  const deps = {
    pool,
    commerce: commerceOf(life, world.provider),
    destinations: destinationsOf(life, destinations),
    logger: silent,
    retryBackoff: () => 0,
  };
  for (let round = 0; round < 2; round += 1) {
    await requestProcessing(pool, world.of);
    for (let jobs = await claimJobs(pool, 1); jobs.length > 0; jobs = await claimJobs(pool, 1)) {
      await PROCESSING.renew(pool, jobs);
      for (const job of jobs) await runJob(deps, job, never);
    }
  }
}

/** A statement of a dead process may have won a race against the next: then its lease runs out first. */
async function finish(pool: pg.Pool, provider: CommerceProvider, of: Return): Promise<void> {
  for (let lives = 0; lives < MAX_LIVES; lives += 1) {
    const { rowCount } = await pool.query(
      "select from returns where shop_id = $1 and id = $2 and state = 'closed'",
      [of.shopId, of.id],
    );
    if (rowCount === 1) return;
    await endLeases(pool);
    await live(mortal(undefined), { pool, provider, of });
  }
}

/** Connections of the dead are closed by the server once their last statement is over. */
async function untilQuiet(pool: pg.Pool): Promise<void> {
  await until(async () => {
    const { rowCount } = await pool.query(
      `select from pg_stat_activity
       where datname = current_database() and pid <> pg_backend_pid() and state <> 'idle'
         and backend_type = 'client backend'`,
    );
    return rowCount === 0;
  });
}

function recording(provider: CommerceProvider, asked: CommerceRequest[]): CommerceProvider {
  const noting = <R extends CommerceRequest, T>(call: (request: R, signal: AbortSignal) => T) => {
    return (request: R, signal: AbortSignal): T => {
      asked.push(request);
      return call(request, signal);
    };
  };
  return {
    createExchangeOrder: noting((request, signal) => provider.createExchangeOrder(request, signal)),
    issueGiftCard: noting((request, signal) => provider.issueGiftCard(request, signal)),
    createRefund: noting((request, signal) => provider.createRefund(request, signal)),
  };
}
