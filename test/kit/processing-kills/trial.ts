import { setTimeout as sleep } from 'node:timers/promises';
import { create } from '@bufbuild/protobuf';
import type pg from 'pg';
import {
  EffectKind,
  SettleEffectRequestSchema,
} from '../../../proto/gen/rms/commerce/v1/commerce_pb.ts';
import type { Return } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { CancelReturnRequestSchema } from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { createEmbeddedCommerce } from '../../../services/commerce/embedded.ts';
import {
  CommerceFailure,
  type CommerceProvider,
  type EffectRequest,
} from '../../../services/commerce/provider.ts';
import {
  createRequestWatch,
  type RequestWatch,
  seeOpenRequests,
} from '../../../services/commerce/request-watch.ts';
import { DomainError } from '../../../services/platform/values/errors.ts';
import { settleEffect } from '../../../services/returns/processing/effects.ts';
import { claimJobs, PROCESSING } from '../../../services/returns/processing/jobs.ts';
import { runJob } from '../../../services/returns/processing/run.ts';
import type { ReturnRef } from '../../../services/returns/return.ts';
import { cancelReturn } from '../../../services/returns/review/cancel.ts';
import { untilIdle } from '../postgres/until-idle.ts';
import {
  actor,
  destinations,
  endLeases,
  newReturn,
  newShop,
  onlyProvider,
  requestProcessing,
} from '../services/processing.ts';
import { changeDeps, storeOf } from '../services/return-stores.ts';
import {
  commerceOf,
  destinationsOf,
  type Kill,
  poolOf,
  type SimulatedProcess,
  simulateProcess,
} from '../simulated-process.ts';
import type { JudgedProvider } from './endpoint.ts';
import { judge } from './judge.ts';
import type { Scenario } from './scenarios.ts';

const never = new AbortController().signal;
/** No trial needs as many: each has a chance of more than one half to close the return. */
const MAX_PROCESSES = 100;

export interface TrialResult {
  /** Number of kills that came before the process had finished. */
  readonly kills: number;
  /** Number of steps of the first process. */
  readonly steps: number;
}

/**
 * Processes a return in one simulated process after the other. Each of `kills` kills one, and the last is not killed.
 * Each process gets a new `process` request, like that of a caller who got no response.
 *
 * @throws Error that says what was lost or duplicated.
 */
export async function runTrial(
  pool: pg.Pool,
  scenario: Scenario,
  kills: readonly Kill[],
  commerce: JudgedProvider = createEmbeddedCommerce(pool),
): Promise<TrialResult> {
  const requests: EffectRequest[] = [];
  const recorded = recording(commerce, requests);
  const provider = scenario.cancelled ? onlyExchanges(recorded) : recorded;
  const of = await newReturn(pool, await newShop(pool, scenario.settings), scenario.submission());
  const { failure } = scenario;
  if (failure) await commerce.failNext({ returnId: of.id, ...failure });

  const processes: SimulatedProcess[] = [];
  for (const kill of [...kills, undefined]) {
    const simulated = simulateProcess(kill);
    processes.push(simulated);
    // A killed process fails with any error.
    const work = runOnce(simulated, { pool, provider, of, scenario });
    await (kill ? work.catch(() => {}) : work);
    await endLeases(pool);
  }
  await Promise.all(processes.map((simulated) => simulated.finished()));
  await untilIdle(pool);
  await finish({ pool, provider, of, scenario });
  await judge(pool, { commerce, requests, scenario, of });
  const [first] = processes;
  return {
    kills: processes.filter((simulated) => simulated.isKilled).length,
    steps: first?.steps ?? 0,
  };
}

interface Trial {
  readonly pool: pg.Pool;
  readonly provider: CommerceProvider;
  readonly of: Return;
  readonly scenario: Scenario;
}

/**
 * Requests processing and runs jobs until none is due. The second round retries the jobs that failed in the first, or
 * requests the cancellation.
 */
async function runOnce(
  simulated: SimulatedProcess,
  trial: Trial,
  watch = createRequestWatch(),
): Promise<void> {
  const pool = poolOf(simulated, trial.pool);
  const deps = {
    ...changeDeps(pool),
    providers: onlyProvider(commerceOf(simulated, trial.provider)),
    destinations: destinationsOf(simulated, destinations),
    retryBackoff: () => 0,
    watch,
  };
  for (let round = 0; round < 2; round += 1) {
    if (round > 0 && trial.scenario.cancelled) await requestCancellation(pool, trial.of, watch);
    else await requestProcessing(pool, trial.of);
    for (let jobs = await claimJobs(pool, 1); jobs.length > 0; jobs = await claimJobs(pool, 1)) {
      await PROCESSING.renew(pool, jobs);
      for (const job of jobs) await runJob(deps, job, never);
    }
  }
}

/** A return that is still being processed is not cancelled, and neither is one that has ended. */
async function requestCancellation(
  pool: pg.Pool,
  { shopId, id: returnId }: Return,
  watch: RequestWatch,
): Promise<void> {
  const request = create(CancelReturnRequestSchema, { shopId, actor, returnId });
  try {
    await cancelReturn(storeOf(pool), request);
  } catch (error) {
    if (!(error instanceof DomainError)) throw error;
    await settleRefund(pool, { shopId, returnId }, watch);
  }
}

/**
 * A kill may leave the outcome of the refund's request unknown. A later rejection proves nothing about that request, so
 * the return is not cancelled until a person has looked at the provider, which made no refund.
 */
async function settleRefund(
  pool: pg.Pool,
  { shopId, returnId }: ReturnRef,
  watch: RequestWatch,
): Promise<void> {
  const request = { shopId, actor, returnId, kind: EffectKind.REFUND };
  const hasPassed: RequestWatch = { seenMs: (open) => watch.seenMs(open) + 180_000 };
  await settleEffect(
    { ...changeDeps(pool), watch: hasPassed },
    create(SettleEffectRequestSchema, request),
  ).catch((error: unknown) => {
    if (!(error instanceof DomainError)) throw error;
  });
}

/** The provider, which makes and cancels exchange orders, and rejects everything else. */
function onlyExchanges(provider: CommerceProvider): CommerceProvider {
  return {
    ...provider,
    async create(request, signal) {
      const isOrder = request.kind === 'exchange_order' || request.kind === 'order_cancel';
      if (isOrder) return provider.create(request, signal);
      throw new CommerceFailure('final', 'the merchant has refunded the line');
    },
  };
}

/**
 * Ends the return when a late statement of a killed process has claimed its job again, or a request had no answer.
 *
 * @throws Error when it is neither closed nor, as the scenario says, cancelled.
 */
async function finish({ pool, provider, of, scenario }: Trial): Promise<void> {
  const watch = createRequestWatch();
  for (let processes = 0; processes < MAX_PROCESSES; processes += 1) {
    const { rowCount } = await pool.query(
      'select from returns where shop_id = $1 and id = $2 and state = $3',
      [of.shopId, of.id, scenario.cancelled ? 'cancelled' : 'closed'],
    );
    if (rowCount === 1) return;
    // A request without an answer is not sent again before the provider would know its effect.
    await seeOpenRequests(pool, watch);
    await sleep(provider.settledAfterMs);
    await endLeases(pool);
    await runOnce(simulateProcess(undefined), { pool, provider, of, scenario }, watch);
  }
  throw new Error(`the return has not ended after ${MAX_PROCESSES} processes`);
}

function recording(provider: CommerceProvider, requests: EffectRequest[]): CommerceProvider {
  return {
    ...provider,
    create(request, signal) {
      requests.push(request);
      return provider.create(request, signal);
    },
  };
}
