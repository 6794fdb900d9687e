import type { ServiceImpl } from '@connectrpc/connect';
import type { ReturnsService } from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import type { Backoff } from '../../platform/backoff.ts';
import type { ServiceRuntime } from '../../platform/service.ts';
import type { Worker } from '../../platform/worker.ts';
import type { CommerceProvider } from '../commerce/provider.ts';
import { resilient } from '../commerce/resilient.ts';
import type { Destinations } from '../destinations.ts';
import { startExpiry, sweepExpired } from '../expiry.ts';
import { openInstantRefund, settleInstantRefund } from '../instant-refunds/instant-refunds.ts';
import { measureBacklog } from './backlog.ts';
import { RETRY_BACKOFF } from './jobs.ts';
import { processReturn } from './process.ts';
import { EVERY_SHOP, sandboxShopsOnly } from './provider-check.ts';
import { startJobPurge } from './purge.ts';
import { runJob } from './run.ts';
import { startProcessingWorker } from './worker.ts';

export interface ProcessingDeps {
  readonly commerce: CommerceProvider;
  readonly destinations: Destinations;
  /** Whether only returns of sandbox shops are processed; see {@link sandboxShopsOnly}. */
  readonly onlySandboxShops?: boolean;
  /** The pause after a transient failure: 1, 2, 4 … 60 s with jitter by default. Tests shorten it. */
  readonly retryBackoff?: Backoff;
}

type Handlers = Pick<
  ServiceImpl<typeof ReturnsService>,
  'processReturn' | 'openInstantRefund' | 'settleInstantRefund' | 'sweepExpired'
>;

export interface Processing {
  readonly handlers: Handlers;
  /** Starts the workers: processing, expiry, purge and the measurement of the backlog. */
  start(): Promise<readonly Worker[]>;
}

/** Builds the RPCs and the workers of processing. The workers run after `start`. */
export function buildProcessing(runtime: ServiceRuntime, deps: ProcessingDeps): Processing {
  const { pool, backgroundPool, logger } = runtime;
  const { meter } = runtime.telemetry;
  const providerCheck = deps.onlySandboxShops ? sandboxShopsOnly({ logger, meter }) : EVERY_SHOP;
  const runDeps = {
    pool: backgroundPool,
    logger,
    commerce: resilient(deps.commerce),
    destinations: deps.destinations,
    retryBackoff: deps.retryBackoff ?? RETRY_BACKOFF,
    providerCheck,
  };
  let wake = (): void => {};

  return {
    handlers: {
      async processReturn(request) {
        const result = await processReturn(pool, request, providerCheck);
        if (result.case === 'queued') wake();
        return { result };
      },
      openInstantRefund: async (request) => ({ credit: await openInstantRefund(pool, request) }),
      settleInstantRefund: async (request) => ({
        credit: await settleInstantRefund(pool, request),
      }),
      sweepExpired: async ({ shopId }) => ({
        expired: await sweepExpired(pool, { shopId, logger }),
      }),
    },
    async start() {
      const run = (job: Parameters<typeof runJob>[1], signal: AbortSignal) =>
        runJob(runDeps, job, signal);
      const own = { pool: backgroundPool, logger };
      const worker = startProcessingWorker({ ...own, run });
      wake = worker.wake;
      const backlog = measureBacklog({ pool: backgroundPool, meter });
      return [worker, startExpiry(own), startJobPurge(own), backlog];
    },
  };
}
