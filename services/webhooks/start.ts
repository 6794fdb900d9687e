import { EventEmitter } from 'node:events';
import { ReturnsService } from '../../proto/gen/rms/returns/v1/returns_pb.ts';
import type { UrlPolicy } from '../platform/outbound/guard.ts';
import type { Dial } from '../platform/outbound/open-socket.ts';
import type { Resolve } from '../platform/outbound/resolver.ts';
import { createSigningKeys } from '../platform/outbound/signing-keys.ts';
import { startSweep } from '../platform/outbox/sweep.ts';
import { STREAM_SETTINGS } from '../platform/postgres/pools.ts';
import { openSecondPool } from '../platform/postgres/postgres.ts';
import { deadline } from '../platform/process/deadlines.ts';
import {
  type RunningService,
  type ServiceOptions,
  type ServiceRuntime,
  startService,
} from '../platform/process/service.ts';
import type { Worker } from '../platform/process/worker.ts';
import { createServiceClient } from '../platform/rpc/client.ts';
import { systemActor } from '../platform/security/identity.ts';
import { startKeyPurge } from '../platform/values/idempotency.ts';
import type { WebhooksConfig } from './config.ts';
import { createRetryClock, type RetryClock } from './delivery/attempt/retry-schedule.ts';
import { createDispatcher } from './delivery/dispatcher.ts';
import { createDatabaseClock } from './delivery/queue/database-clock.ts';
import { startConsuming } from './fan-out/fan-out.ts';
import { type ReadSnapshot, unlessGone } from './fan-out/snapshots.ts';
import { retainedEvents } from './jobs/retained-events.ts';
import { startReplays } from './jobs/worker.ts';
import { startMaintenance } from './maintenance.ts';
import { NetworkLimit } from './sender/network-limit.ts';
import { createSender } from './sender/send.ts';
import { webhooksRoutes } from './service.ts';

export interface WebhooksOptions extends ServiceOptions, WebhooksConfig {
  /** Ports of this stack, which webhooks may not reach. */
  readonly stackPorts?: () => readonly number[];
  /**
   * The current day of the version calendar (tests). By default it is API_CALENDAR, or the real day when that is not
   * set.
   */
  readonly today?: () => Date;
  /** The clock for WEBHOOK_SHOP_BYTES_PER_MINUTE (tests). Milliseconds. */
  readonly shopBytesNow?: () => number;
  /** Total time of one attempt (tests). Milliseconds. */
  readonly attemptMs?: number;
  /** Length of the lease of this process (tests). Milliseconds. */
  readonly leaseMs?: number;
  /** Pauses between the tries of an event whose handling fails (tests). Milliseconds. */
  readonly recordPausesMs?: readonly number[];
  /** How names are resolved (tests). */
  readonly resolve?: Resolve;
  /** How connections to receivers are opened (tests). */
  readonly dial?: Dial;
  /** The only certificate authority that is trusted for receivers, in PEM (tests). */
  readonly ca?: string;
}

export interface RunningWebhooks extends RunningService {
  /** Moves the retry clock. Deliveries that become due are sent immediately. */
  advanceClock(seconds: number): void;
}

/**
 * The connections of the dispatcher. One reads, one writes, and the others are for leases and other work. No statement
 * waits long for a lock, because a statement that records results locks leases, and these must be renewed.
 */
export const DISPATCHER_POOL = {
  max: 4,
  settings: { ...STREAM_SETTINGS, lock_timeout: '1s' },
};

/** Maximum time for which a frozen process can block rows by an open transaction. Milliseconds. */
const IDLE_IN_TRANSACTION_MS = deadline(5_000);

/** Timeout for reading a snapshot, which is larger than 900 kB. Milliseconds. */
const SNAPSHOT_TIMEOUT_MS = deadline(10_000);

/** Starts the webhooks service: it manages subscriptions over gRPC, handles events, and sends deliveries. */
export async function startWebhooks(o: WebhooksOptions): Promise<RunningWebhooks> {
  const shared: Shared = {
    clock: createRetryClock(),
    today: o.today ?? (() => o.API_CALENDAR ?? new Date()),
    policy: {
      allowedOrigins: o.WEBHOOK_ALLOWED_ORIGINS,
      stackPorts: o.stackPorts ?? (() => []),
    },
    wakeUps: new EventEmitter(),
  };
  const service = await startService(
    {
      name: 'webhooks',
      publishes: true,
      idleInTransactionMs: IDLE_IN_TRANSACTION_MS,
      build: (runtime) => build(o, shared, createParts(o, shared, runtime)),
    },
    o,
  );
  return {
    ...service,
    advanceClock(seconds) {
      shared.clock.advance(seconds);
      shared.wakeUps.emit('due');
      shared.wakeUps.emit('backlog');
    },
  };
}

/** The parts that calls, loops and the retry clock share. */
interface Shared {
  readonly clock: RetryClock;
  readonly today: () => Date;
  readonly policy: UrlPolicy;
  /** `due`: a delivery may be due. `backlog`: waiting deliveries may have to end. `job`: a new job may exist. */
  readonly wakeUps: EventEmitter<{ due: []; backlog: []; job: [] }>;
}

function createParts(
  o: WebhooksOptions,
  { clock, policy, today }: Shared,
  runtime: ServiceRuntime,
) {
  const { backgroundPool, logger, telemetry } = runtime;
  const databaseClock = createDatabaseClock();
  const dispatcherPool = openSecondPool(backgroundPool, DISPATCHER_POOL);
  const nowMs = () => performance.now() + clock.offsetMs();
  const limit = new NetworkLimit({ pool: dispatcherPool, logger, nowMs });
  const sender = createSender({
    policy,
    limit,
    meter: telemetry.meter,
    now: () => new Date(databaseClock.nowMs()),
    ...(o.resolve && { resolve: o.resolve }),
    ...(o.dial && { dial: o.dial }),
    ...(o.ca !== undefined && { ca: o.ca }),
    ...(o.attemptMs !== undefined && { attemptMs: o.attemptMs }),
  });
  const dispatcher = createDispatcher({
    logger,
    telemetry,
    clock,
    databaseClock,
    today,
    pool: dispatcherPool,
    signingKeys: createSigningKeys(o.WEBHOOK_KEYRING),
    send: sender.send,
    limit,
    concurrency: o.WEBHOOK_CONCURRENCY,
    shopBytesPerMinute: o.WEBHOOK_SHOP_BYTES_PER_MINUTE,
    ...(o.shopBytesNow && { shopBytesNow: o.shopBytesNow }),
    ...(o.leaseMs !== undefined && { leaseMs: o.leaseMs }),
  });
  const returns = createServiceClient(ReturnsService, {
    target: o.RETURNS_TARGET,
    identity: runtime.identity,
    timeoutMs: SNAPSHOT_TIMEOUT_MS,
    telemetry,
  });
  return {
    runtime,
    sender,
    dispatcherPool,
    dispatcher,
    returns,
    readSnapshot: snapshotReader(returns.client),
    retained: retainedEvents(returns.client),
    days: { log: o.WEBHOOK_LOG_DAYS, events: o.RETENTION_DAYS },
  };
}

type Parts = ReturnType<typeof createParts>;

function build(o: WebhooksOptions, shared: Shared, parts: Parts) {
  const { clock, policy, today, wakeUps } = shared;
  const { runtime, retained, days } = parts;
  return {
    routes: webhooksRoutes({
      pool: runtime.pool,
      policy,
      keyring: o.WEBHOOK_KEYRING,
      clock,
      today,
      wake: () => void wakeUps.emit('backlog'),
      jobs: {
        retained,
        keptDays: Math.min(days.log, days.events),
        wake: () => void wakeUps.emit('job'),
      },
    }),
    workers: () => startWorkers(o, shared, parts),
    async close() {
      parts.returns.close();
      // When the dispatcher stopped, it waited for the attempts. So no attempt needs the sender any more.
      parts.sender.close();
      await parts.dispatcherPool.end();
    },
  };
}

async function startWorkers(
  o: WebhooksOptions,
  { clock, today, wakeUps }: Shared,
  { runtime, dispatcher, readSnapshot, retained, days }: Parts,
): Promise<Worker[]> {
  const { streamPool, backgroundPool, logger, telemetry } = runtime;
  // Start the consumer first, because its start may fail, and nothing would stop loops that were started before it.
  const consumer = await startConsuming({
    ...runtime,
    pool: streamPool,
    clock,
    today,
    readSnapshot,
    ownedShards: dispatcher.ownedShards,
    onCommitted: dispatcher.committed,
    ...(o.recordPausesMs && { recordPausesMs: o.recordPausesMs }),
  });
  const common = { logger, telemetry, clock, today, pool: backgroundPool };
  const maintenance = startMaintenance({ ...common, days });
  const { offsetMs } = clock;
  const replays = startReplays({ ...common, retained, readSnapshot, offsetMs });
  const sweep = startSweep(runtime, {
    group: 'webhooks',
    source: 'returns',
    target: o.RETURNS_TARGET,
  });
  wakeUps.on('due', dispatcher.wake);
  wakeUps.on('backlog', maintenance.wake);
  wakeUps.on('job', replays.wake);
  const keys = startKeyPurge(common);
  return [consumer, sweep, dispatcher.start(), maintenance, replays, keys];
}

type ReturnsClient = ReturnType<typeof createServiceClient<typeof ReturnsService>>['client'];

function snapshotReader(returns: ReturnsClient): ReadSnapshot {
  const actor = systemActor('webhooks');
  return async ({ shopId, returnId, revision }) => {
    const response = await unlessGone(returns.getSnapshot({ shopId, actor, returnId, revision }));
    return response?.return;
  };
}
