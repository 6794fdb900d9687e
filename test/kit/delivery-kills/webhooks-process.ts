import { randomUUID } from 'node:crypto';
import { toBinary } from '@bufbuild/protobuf';
import type pg from 'pg';
import { type Event, EventSchema } from '../../../proto/gen/rms/events/v1/events_pb.ts';
import type {
  EventBus,
  ReceivedRecord,
  Subscription,
} from '../../../services/platform/bus/event-bus.ts';
import { createShardHolder } from '../../../services/platform/leases/shards.ts';
import { createSigningKeys } from '../../../services/platform/outbound/signing-keys.ts';
import type { Telemetry } from '../../../services/platform/telemetry/telemetry.ts';
import type { RetryClock } from '../../../services/webhooks/delivery/attempt/retry-schedule.ts';
import { AttemptRunner } from '../../../services/webhooks/delivery/attempt/runner.ts';
import { createHealthChanges } from '../../../services/webhooks/delivery/endpoint/health-changes.ts';
import { createDatabaseClock } from '../../../services/webhooks/delivery/queue/database-clock.ts';
import { QueueLoader } from '../../../services/webhooks/delivery/queue/queue-loader.ts';
import {
  DELIVERY_LEASES,
  DELIVERY_SHARDS,
} from '../../../services/webhooks/delivery/queue/queue-ref.ts';
import { retryWaiting } from '../../../services/webhooks/delivery/queue/retry-waiting.ts';
import type { FreshDeliveries } from '../../../services/webhooks/delivery/queue/targets.ts';
import { ResultWriter } from '../../../services/webhooks/delivery/results/result-writer.ts';
import { ActiveQueues } from '../../../services/webhooks/delivery/scheduler/active-queues.ts';
import { InFlightAttempts } from '../../../services/webhooks/delivery/scheduler/in-flight.ts';
import { Scheduler } from '../../../services/webhooks/delivery/scheduler/scheduler.ts';
import { startConsuming } from '../../../services/webhooks/fan-out/fan-out.ts';
import { replayDelivery } from '../../../services/webhooks/log/methods.ts';
import { identity } from '../services/running-service.ts';
import { silentLogger } from '../services/telemetry.ts';
import { poolOf, type SimulatedProcess } from '../simulated-process.ts';
import { until } from '../until.ts';
import { keyring } from '../webhooks/running-webhooks.ts';
import type { Sink } from './sink.ts';

/** What the processes of a trial share. */
export interface Trial {
  readonly pool: pg.Pool;
  readonly telemetry: Telemetry;
  readonly clock: RetryClock;
  readonly sink: Sink;
  readonly shopId: bigint;
  readonly events: readonly Event[];
  /** The id of the delivery that a process replays after it has ended. */
  readonly replayed: () => string | undefined;
}

const logger = silentLogger();
const today = () => new Date('2026-11-21T00:00:00Z');
/** Longer than any trial, so that only the trial itself expires leases. Milliseconds. */
const LEASE_MS = 600_000;
/** Longer than any pause between the attempts of a trial. Seconds. */
const ADVANCE_S = 3_600;
const MAX_ROUNDS = 10;

/** One process of webhooks: fans out, sends and records until no delivery waits, then replays one and sends it. */
export async function runOnce(simulated: SimulatedProcess, trial: Trial): Promise<void> {
  const pool = poolOf(simulated, trial.pool);
  const fresh: FreshDeliveries[] = [];
  const fanOut = await fanOutOn(pool, trial, fresh);
  await fanOut(trial.events);
  await sendAll(simulated, { pool, trial, fresh });
  const webhookId = trial.replayed();
  if (webhookId === undefined) throw new Error('there is no delivery to replay');
  // Each process repeats the same request under the same key.
  const { shopId, clock } = trial;
  const offsetMs = clock.offsetMs();
  await replayDelivery(pool, { shopId, webhookId, subscriptionId: 0n, key: 'once', offsetMs });
  await sendAll(simulated, { pool, trial, fresh: [] });
}

/** The consumer's handler of events, on the pool of the simulated process. Only the handler can be killed. */
export async function fanOutOn(
  pool: pg.Pool,
  trial: Pick<Trial, 'pool' | 'telemetry' | 'clock'>,
  fresh: FreshDeliveries[],
): Promise<(events: readonly Event[]) => Promise<void>> {
  let handle: Subscription['handle'] = async () => {};
  let used = trial.pool;
  const bus: EventBus = {
    publish: async () => {},
    hasCaughtUp: async () => true,
    health: async () => {},
    close: async () => {},
    async subscribe(subscription) {
      handle = subscription.handle;
      return { stop: async () => {} };
    },
  };
  const either = new Proxy(trial.pool, { get: (_target, name) => Reflect.get(used, name) });
  const consumer = await startConsuming({
    name: 'webhooks',
    bus,
    logger,
    telemetry: trial.telemetry,
    clock: trial.clock,
    today,
    pool: either,
    backgroundPool: either,
    streamPool: either,
    identity,
    readSnapshot: async () => undefined,
    ownedShards: () => Array.from({ length: DELIVERY_SHARDS }, (_, shard) => shard),
    onCommitted: (_queues, committed) => void fresh.push(...committed),
    retentionDays: 7,
    recordPausesMs: [0, 0],
  });
  await consumer.stop();
  used = pool;
  return (events) => handle(events.map(recordOf));
}

function recordOf(event: Event, nth: number): ReceivedRecord {
  return {
    topic: 'rms.returns.events.v1',
    position: `0:${nth}`,
    key: `${event.shopId}:${event.returnId}`,
    value: toBinary(EventSchema, event),
    headers: {},
  };
}

/**
 * Sends all waiting deliveries, retries included, as the owner of all shards.
 *
 * @param fresh deliveries that this process has just committed; sent from memory first.
 */
async function sendAll(
  simulated: SimulatedProcess,
  { pool, trial, fresh }: { pool: pg.Pool; trial: Trial; fresh: readonly FreshDeliveries[] },
): Promise<void> {
  const { shards, loader, scheduler, inFlight, attempts, results } = sender(simulated, pool, trial);
  try {
    await shards.rebalance();
    loader.addFresh(fresh);
    await scheduler.sendDue();
    for (let round = 0; (await waiting(trial)) > 0; round += 1) {
      if (round === MAX_ROUNDS) throw new Error('a delivery is still waiting');
      loader.notify({ keys: [], isChange: false });
      await loader.load();
      await scheduler.sendDue();
      await until(() => inFlight.size() === 0 || simulated.isKilled);
      if (simulated.isKilled) break;
      if (round === 0) await retryAll(pool, trial);
      else trial.clock.advance(ADVANCE_S);
    }
    await shards.release();
  } finally {
    // Also stops the retries of a killed process, which would never end.
    await attempts.drain(0);
    await results.drain(0);
  }
  // The calls of a killed process do not fail, so this function throws.
  if (simulated.isKilled) throw new Error('this process was killed');
}

/** The parts of a process that send deliveries, without the loops that would run them. */
export function sender(
  simulated: SimulatedProcess,
  pool: pg.Pool,
  { telemetry, clock, sink }: Pick<Trial, 'telemetry' | 'clock' | 'sink'>,
) {
  const active = new ActiveQueues();
  const inFlight = new InFlightAttempts();
  const healthChanges = createHealthChanges();
  const shards = createShardHolder({
    pool,
    owner: randomUUID(),
    name: DELIVERY_LEASES,
    count: DELIVERY_SHARDS,
    leaseMs: LEASE_MS,
  });
  const results = new ResultWriter({
    pool,
    logger,
    offsetMs: clock.offsetMs,
    healthChanges,
    onRecorded(batch) {
      for (const { due } of batch) inFlight.remove(due.id);
    },
  });
  const wakeLoop = { wake: () => {} };
  const holds = { hold: () => {}, waitMs: () => 0 };
  const health = { shards, healthChanges, wakeLoop, results, holds };
  const common = { pool, logger, clock, active, inFlight, ...health };
  const loader = new QueueLoader({
    ...common,
    databaseClock: createDatabaseClock(),
    metrics: { clockStep: () => {} },
  });
  const attempts = new AttemptRunner({
    ...common,
    telemetry,
    today,
    loader,
    metrics: { rescheduled: () => {} },
    signingKeys: createSigningKeys(keyring),
    send: (sending) => simulated.step(() => sink.receive(sending)),
  });
  const scheduler = new Scheduler({
    ...common,
    loader,
    attempts,
    concurrency: 64,
    offsetMs: clock.offsetMs,
    retryNowMs: () => loader.retryNowMs(),
    shopBytes: { take: () => true, waitMs: () => 0, throttled: () => 0 },
  });
  return { shards, loader, scheduler, inFlight, attempts, results };
}

/** Makes everything due that waits for a later attempt. Each process repeats the same requests under the same keys. */
async function retryAll(pool: pg.Pool, { clock, shopId }: Trial): Promise<void> {
  const { rows } = await pool.query<{ subscriptionId: bigint }>(
    'select distinct subscription_id as "subscriptionId" from queue where shop_id = $1',
    [shopId],
  );
  for (const { subscriptionId } of rows) {
    const key = { operation: 'RetryDeliveries', key: `${subscriptionId}`, hash: Buffer.alloc(32) };
    const retry = { offsetMs: clock.offsetMs(), use: { shopId, ...key } };
    await retryWaiting(pool, { shopId, subscriptionId }, retry);
  }
}

async function waiting({ pool, shopId }: Trial): Promise<number> {
  const { rows } = await pool.query<{ count: number }>(
    'select count(*)::int as count from queue where shop_id = $1',
    [shopId],
  );
  return rows[0]?.count ?? 0;
}
