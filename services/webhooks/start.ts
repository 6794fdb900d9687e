import { ReturnsService } from '../../proto/gen/rms/returns/v1/returns_pb.ts';
import { createServiceClient } from '../platform/grpc/client.ts';
import { systemActor } from '../platform/identity.ts';
import type { Keyring } from '../platform/keyring.ts';
import { STREAM_SETTINGS } from '../platform/pools.ts';
import { poolBeside } from '../platform/postgres.ts';
import { type RunningService, type ServiceOptions, startService } from '../platform/service.ts';
import { startSweep } from '../platform/sweep/start.ts';
import { createRetryClock } from './delivery/attempt/retry-clock.ts';
import { type Dispatcher, startDispatcher } from './delivery/dispatcher.ts';
import { startConsuming } from './fan-out/consume.ts';
import { type ReadSnapshot, unlessGone } from './fan-out/snapshots.ts';
import type { UrlPolicy } from './guard/guard.ts';
import { retainedEvents } from './jobs/retained-events.ts';
import { startReplays } from './jobs/worker.ts';
import { startMaintenance } from './maintenance.ts';
import type { Resolve } from './sender/names.ts';
import { createSender } from './sender/send.ts';
import { webhooksRoutes } from './service.ts';
import { createSigningKeys } from './subscriptions/signing-keys.ts';

export interface WebhooksOptions extends ServiceOptions {
  /** gRPC name of the returns service. */
  readonly returnsTarget: string;
  readonly keyring: Keyring;
  /** Origins such as `http://127.0.0.1:*`; none in production. */
  readonly allowedOrigins?: readonly string[];
  /** Ports of the stack itself, which allowed origins do not include. */
  readonly refusedPorts?: () => readonly number[];
  /** Today in the version calendar; by default the real day. */
  readonly today?: () => Date;
  /** Most attempts in flight. */
  readonly concurrency?: number;
  /** Most bytes that a shop's deliveries send in a minute, over all processes. */
  readonly shopBytesPerMinute?: number;
  /** The clock of those minutes (tests). Milliseconds. */
  readonly shopBytesNow?: () => number;
  /** How long finished deliveries are kept. Days. */
  readonly logDays?: number;
  /** Total time of one attempt (tests). Milliseconds. */
  readonly attemptMs?: number;
  /** How long a shard is kept without a sign of life (tests). Milliseconds. */
  readonly leaseMs?: number;
  /** Between the tries of an event that cannot be handled (tests). Milliseconds. */
  readonly recordPausesMs?: readonly number[];
  /** How names are resolved (tests). */
  readonly resolve?: Resolve;
}

export interface RunningWebhooks extends RunningService {
  /** Moves the retry clock; what has become due is sent at once. Seconds. */
  advanceClock(seconds: number): void;
}

const DEFAULT_CONCURRENCY = 512;
/** 1 GiB. */
export const DEFAULT_SHOP_BYTES_PER_MINUTE = 1024 ** 3;
const DEFAULT_LOG_DAYS = 30;
const DEFAULT_EVENT_DAYS = 7;

/**
 * The dispatcher's own connections: one reads, one writes, one for leases and the rest. No statement waits long for a
 * lock: one that records results holds leases that are to be renewed.
 */
export const ENGINE_POOL = {
  max: 4,
  settings: { ...STREAM_SETTINGS, lock_timeout: '1s' },
};

/** A process that stops within a transaction keeps others from its rows for so long. Milliseconds. */
const IDLE_IN_TRANSACTION_MS = 5_000;

/** A snapshot read back is over 900 kB. Milliseconds. */
const SNAPSHOT_TIMEOUT_MS = 10_000;

/** Starts the webhooks service: subscriptions over gRPC, events in, deliveries out. */
export async function startWebhooks(o: WebhooksOptions): Promise<RunningWebhooks> {
  const clock = createRetryClock();
  const today = o.today ?? (() => new Date());
  const policy: UrlPolicy = {
    allowedOrigins: o.allowedOrigins ?? [],
    refusedPorts: o.refusedPorts ?? (() => []),
  };
  let dispatcher: Dispatcher | undefined;
  let maintenance: ReturnType<typeof startMaintenance> | undefined;
  let replays: ReturnType<typeof startReplays> | undefined;
  const wake = (): void => maintenance?.wake();

  const service = await startService(
    {
      name: 'webhooks',
      publishes: false,
      idleInTransactionMs: IDLE_IN_TRANSACTION_MS,
      build(runtime) {
        const { pool, backgroundPool, streamPool, logger, telemetry } = runtime;
        const sender = createSender({
          policy,
          meter: telemetry.meter,
          now: () => dispatcher?.now() ?? new Date(),
          ...(o.resolve && { resolve: o.resolve }),
          ...(o.attemptMs !== undefined && { attemptMs: o.attemptMs }),
        });
        const returns = createServiceClient(ReturnsService, {
          target: o.returnsTarget,
          identity: runtime.identity,
          timeoutMs: SNAPSHOT_TIMEOUT_MS,
          telemetry,
        });
        const readSnapshot = snapshotReader(returns.client);
        const retained = retainedEvents(returns.client);
        const days = {
          log: o.logDays ?? DEFAULT_LOG_DAYS,
          events: o.retentionDays ?? DEFAULT_EVENT_DAYS,
        };
        const jobs = {
          retained,
          keptDays: Math.min(days.log, days.events),
          wake: () => replays?.wake(),
        };
        const enginePool = poolBeside(backgroundPool, ENGINE_POOL);
        return {
          routes: webhooksRoutes({ pool, policy, keyring: o.keyring, clock, today, wake, jobs }),
          async workers() {
            // First what can fail: a loop that was begun before would never be stopped.
            const consumer = await startConsuming({
              ...runtime,
              pool: streamPool,
              clock,
              today,
              readSnapshot,
              heldShards: () => dispatcher?.heldShards() ?? [],
              onCommitted: (queues, fresh) => dispatcher?.committed(queues, fresh),
              ...(o.recordPausesMs && { recordPausesMs: o.recordPausesMs }),
            });
            const parts = { logger, telemetry, clock, today };
            dispatcher = startDispatcher({
              ...parts,
              pool: enginePool,
              signingKeys: createSigningKeys(o.keyring),
              send: sender.send,
              concurrency: o.concurrency ?? DEFAULT_CONCURRENCY,
              shopBytesPerMinute: o.shopBytesPerMinute ?? DEFAULT_SHOP_BYTES_PER_MINUTE,
              ...(o.shopBytesNow && { shopBytesNow: o.shopBytesNow }),
              ...(o.leaseMs !== undefined && { leaseMs: o.leaseMs }),
            });
            maintenance = startMaintenance({ ...parts, pool: backgroundPool, days });
            replays = startReplays({
              ...parts,
              pool: backgroundPool,
              retained,
              readSnapshot,
              offsetMs: clock.offsetMs,
            });
            const sweep = startSweep(runtime, {
              ...{ group: 'webhooks', source: 'returns', target: o.returnsTarget },
            });
            return [consumer, sweep, dispatcher, maintenance, replays];
          },
          async close() {
            returns.close();
            // Attempts have ended, or have had their time.
            sender.close();
            await enginePool.end();
          },
        };
      },
    },
    o,
  );
  return {
    ...service,
    advanceClock(seconds) {
      clock.advance(seconds);
      dispatcher?.wake();
      wake();
    },
  };
}

type ReturnsClient = ReturnType<typeof createServiceClient<typeof ReturnsService>>['client'];

function snapshotReader(returns: ReturnsClient): ReadSnapshot {
  const actor = systemActor('webhooks');
  return async ({ shopId, returnId, revision }) => {
    const answer = await unlessGone(returns.getSnapshot({ shopId, actor, returnId, revision }));
    return answer?.return;
  };
}
