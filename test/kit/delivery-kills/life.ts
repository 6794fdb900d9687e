import { randomUUID } from 'node:crypto';
import { toBinary } from '@bufbuild/protobuf';
import type pg from 'pg';
import { type Event, EventSchema } from '../../../proto/gen/rms/events/v1/events_pb.ts';
import type { EventBus, Subscription } from '../../../services/platform/bus/event-bus.ts';
import { createShardHolder } from '../../../services/platform/shards.ts';
import type { Telemetry } from '../../../services/platform/telemetry.ts';
import type { RetryClock } from '../../../services/webhooks/delivery/attempt/retry-clock.ts';
import { AttemptRunner } from '../../../services/webhooks/delivery/attempt/runner.ts';
import { createHealthChanges } from '../../../services/webhooks/delivery/endpoint/health-changes.ts';
import { createDatabaseClock } from '../../../services/webhooks/delivery/queue/database-clock.ts';
import { QueueLoader } from '../../../services/webhooks/delivery/queue/queue-loader.ts';
import {
  DELIVERY_LEASES,
  DELIVERY_SHARDS,
} from '../../../services/webhooks/delivery/queue/queue-ref.ts';
import type { FreshDeliveries } from '../../../services/webhooks/delivery/queue/targets.ts';
import { ResultWriter } from '../../../services/webhooks/delivery/results/result-writer.ts';
import { ActiveQueues } from '../../../services/webhooks/delivery/scheduler/active-queues.ts';
import { InFlightAttempts } from '../../../services/webhooks/delivery/scheduler/in-flight.ts';
import { Scheduler } from '../../../services/webhooks/delivery/scheduler/scheduler.ts';
import { startConsuming } from '../../../services/webhooks/fan-out/consume.ts';
import { replayDelivery } from '../../../services/webhooks/log/replay.ts';
import { createSigningKeys } from '../../../services/webhooks/subscriptions/signing-keys.ts';
import { type Life, poolOf } from '../processing-kills/mortal.ts';
import { identity } from '../services/running-service.ts';
import { silentLogger } from '../services/telemetry.ts';
import { until } from '../until.ts';
import { keyring } from '../webhooks/running-webhooks.ts';
import type { Sink } from './sink.ts';

/** What outlives each process of a trial. */
export interface World {
  readonly pool: pg.Pool;
  readonly telemetry: Telemetry;
  readonly clock: RetryClock;
  readonly sink: Sink;
  readonly shopId: bigint;
  readonly events: readonly Event[];
  /** Of the delivery that is replayed once it has ended. */
  readonly replayed: () => string | undefined;
}

const logger = silentLogger();
const today = () => new Date('2026-11-21T00:00:00Z');
/** Longer than any trial: where a lease ends, the trial ends it. Milliseconds. */
const LEASE_MS = 600_000;
/** Longer than any pause of the schedule that a trial reaches. Seconds. */
const LATER_S = 3_600;
const MOST_ROUNDS = 10;

/** One process of webhooks: matches, sends and records until no delivery waits; then replays, and sends those. */
export async function live(life: Life, world: World): Promise<void> {
  const pool = poolOf(life, world.pool);
  const fresh: FreshDeliveries[] = [];
  const handle = await matcherOver(pool, world, fresh);
  await handle(
    world.events.map((event, nth) => ({
      topic: 'rms.returns.events.v1',
      position: `0:${nth}`,
      key: `${event.shopId}:${event.returnId}`,
      value: toBinary(EventSchema, event),
      headers: {},
    })),
  );
  await sendAll(life, { pool, world, fresh });
  const webhookId = world.replayed();
  if (webhookId === undefined) throw new Error('nothing was sent to be replayed');
  // A caller asks again, under the same key, until it is answered.
  const { shopId, clock } = world;
  const offsetMs = clock.offsetMs();
  await replayDelivery(pool, { shopId, webhookId, subscriptionId: 0n, key: 'once', offsetMs });
  await sendAll(life, { pool, world, fresh: [] });
}

/** The handler of the consumer, on the mortal pool. The consumer's own work is left out. */
async function matcherOver(
  pool: pg.Pool,
  world: World,
  fresh: FreshDeliveries[],
): Promise<Subscription['handle']> {
  let handle: Subscription['handle'] = async () => {};
  let used = world.pool;
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
  const either = new Proxy(world.pool, { get: (_target, name) => Reflect.get(used, name) });
  const consumer = await startConsuming({
    ...{ name: 'webhooks', bus, logger, telemetry: world.telemetry, clock: world.clock, today },
    ...{ pool: either, backgroundPool: either, streamPool: either, identity },
    readSnapshot: async () => undefined,
    heldShards: () => Array.from({ length: DELIVERY_SHARDS }, (_, shard) => shard),
    onCommitted: (_queues, committed) => void fresh.push(...committed),
    retentionDays: 7,
    recordPausesMs: [0, 0],
  });
  await consumer.stop();
  used = pool;
  return handle;
}

/**
 * Sends all waiting deliveries, retries included, as the owner of all shards.
 *
 * @param fresh deliveries that this process has just committed; sent from memory first.
 */
async function sendAll(
  life: Life,
  { pool, world, fresh }: { pool: pg.Pool; world: World; fresh: readonly FreshDeliveries[] },
): Promise<void> {
  const { telemetry, clock } = world;
  const active = new ActiveQueues();
  const inFlight = new InFlightAttempts();
  const healthChanges = createHealthChanges();
  const shards = createShardHolder({
    ...{ pool, owner: randomUUID(), name: DELIVERY_LEASES, count: DELIVERY_SHARDS },
    leaseMs: LEASE_MS,
  });
  const results = new ResultWriter({
    ...{ pool, logger, offsetMs: clock.offsetMs, healthChanges },
    onRecorded(batch) {
      for (const { due } of batch) inFlight.remove(due.id);
    },
  });
  const wakeLoop = { wake: () => {} };
  const common = {
    pool,
    logger,
    clock,
    active,
    inFlight,
    shards,
    healthChanges,
    wakeLoop,
    results,
  };
  const loader = new QueueLoader({
    ...{ ...common, databaseClock: createDatabaseClock() },
    metrics: { clockStep: () => {} },
  });
  const attempts = new AttemptRunner({
    ...{ ...common, telemetry, today, loader, metrics: { rescheduled: () => {} } },
    signingKeys: createSigningKeys(keyring),
    send: (sending) => life.step(() => world.sink.receive(sending)),
  });
  const scheduler = new Scheduler({
    ...{ ...common, loader, attempts, concurrency: 64 },
    ...{ offsetMs: clock.offsetMs, retryNowMs: () => loader.retryNowMs() },
    shopBytes: { take: () => true, waitMs: () => 0, waiting: () => 0 },
  });
  try {
    await shards.rebalance();
    loader.addFresh(fresh);
    await scheduler.sendDue();
    for (let round = 0; (await waiting(world)) > 0; round += 1) {
      if (round === MOST_ROUNDS) throw new Error('something waits for ever');
      loader.notify({ keys: [], isChange: false });
      await loader.load();
      await scheduler.sendDue();
      await until(() => inFlight.size() === 0 || life.isDead);
      if (life.isDead) break;
      clock.advance(LATER_S);
    }
    await shards.release();
  } finally {
    // Also ends endless retries of a dead process.
    await attempts.drain(0);
    await results.drain(0);
  }
  // Callers of the dead process got no error, so the test throws one.
  if (life.isDead) throw new Error('this process is dead');
}

async function waiting({ pool, shopId }: World): Promise<number> {
  const { rows } = await pool.query<{ count: number }>(
    'select count(*)::int as count from queue where shop_id = $1',
    [shopId],
  );
  return rows[0]?.count ?? 0;
}
