import type pg from 'pg';
import type { Logger } from '../../../platform/log.ts';
import type { ShardHolder } from '../../../platform/shards.ts';
import type { Outcome } from '../../sender/outcome.ts';
import { type AttemptOptions, attempt } from '../attempt/attempt.ts';
import { reschedulePause } from '../attempt/retry-schedule.ts';
import { createRetrySlots } from '../attempt/retry-slots.ts';
import { NEW_ENDPOINT } from '../endpoint/circuit-breaker.ts';
import { endpointKeyOf, queueKeyOf, shardOf } from '../queue/queue-ref.ts';
import { type Due, readDue } from '../queue/read-due.ts';
import { createResultWriter } from '../results/result-writer.ts';
import type { AttemptResult, EndpointChange, WrittenResults } from '../results/write-results.ts';
import {
  type ActiveQueue,
  type ActiveQueues,
  healthClassOf,
  modeOf,
  noteRead,
  startOf,
} from './active-queues.ts';
import { type EndpointCapacity, freeCapacity, freeFor, type HealthClass } from './capacity.ts';
import { shareFairly } from './fair-share.ts';
import type { Held, InFlightAttempts, TrackedAttempt } from './in-flight.ts';
import type { ShopBytes } from './shop-bytes.ts';

export interface SchedulerOptions extends AttemptOptions {
  readonly pool: pg.Pool;
  readonly logger: Logger;
  readonly active: ActiveQueues;
  readonly inFlight: InFlightAttempts;
  readonly shards: ShardHolder;
  readonly concurrency: number;
  readonly offsetMs: () => number;
  readonly retryNowMs: () => number;
  /** The circuit of an endpoint closed. */
  readonly onClosed: (endpoint: { shopId: bigint; endpointId: bigint }) => void;
  readonly shopBytes: ShopBytes;
  /** Queues of a shop that has used its bytes up; to be looked at again after that time. Milliseconds. */
  readonly onWait: (queues: readonly ActiveQueue[], waitMs: number) => Promise<void>;
  /** A request has ended while queues had more to send. */
  readonly onRoom: () => void;
  /** An attempt could not be made. */
  readonly onPutOff: () => void;
  readonly onWritten: (batch: readonly AttemptResult[], written: WrittenResults) => void;
}

/** Takes what is due, sends it, has written down what became of it. */
export interface Scheduler {
  /** Reads what there is room for, and begins with it. */
  take(): Promise<void>;
  /** Nothing is held against the endpoint any more. */
  reset(endpoint: { shopId: bigint; endpointId: bigint }): void;
  /** For how long the oldest result has not been recorded; 0 when all are. Milliseconds. */
  oldestResultMs(): number;
  /** Resolves when nothing is open and all is written; gives up after these times. Milliseconds. */
  drain(o: { attemptsMs: number; writeMs: number }): Promise<void>;
}

/** Bodies held at once; when endpoints hang, up to twice as many. */
const MAX_BYTES = 32 * 1024 * 1024;
/** Of an endpoint, in a row, whose retries are spread; after more its cap and its circuit bound what is retried. */
const FIRST_FAILURES = 3;

export function createScheduler(o: SchedulerOptions): Scheduler {
  const { active, inFlight, shards } = o;
  const open = new Set<Promise<void>>();
  const changes = new Map<string, EndpointChange>();
  const retrySlots = createRetrySlots();
  let hasMore = false;

  const resultWriter = createResultWriter({
    pool: o.pool,
    logger: o.logger,
    offsetMs: o.offsetMs,
    takeChanges() {
      const taken = [...changes.values()];
      changes.clear();
      return taken;
    },
    onWritten(batch, written) {
      for (const { due } of batch) {
        const tracked = inFlight.get(due.id);
        if (tracked) inFlight.remove(tracked);
        const queue = active.queues.get(queueKeyOf(due));
        if (queue) queue.idleSinceMs = performance.now();
      }
      o.onWritten(batch, written);
    },
  });

  async function take(): Promise<void> {
    const due = await withoutWaiting(active.due());
    hasMore = due.length > 0;
    if (!hasMore) return;
    const load = inFlight.load();
    const bytes = freeCapacity({ most: MAX_BYTES, ...load.bytes });
    const maxBytes = byHealthClass((healthClass) => freeFor(bytes, healthClass));
    const given = places(due, { held: load.places, maxBytes });
    if (given.size === 0) return;
    const picked = pickedOf(given);
    const rows = await read(picked, maxBytes);
    const cameOf = new Map<string, number>();
    const bytesOf = byHealthClass(() => 0);
    const waiting = new Set<string>();
    const healthClasses = new Map(picked.map(({ queue, healthClass }) => [queue.key, healthClass]));
    for (const row of rows) {
      const key = queueKeyOf(row);
      cameOf.set(key, (cameOf.get(key) ?? 0) + 1);
      bytesOf[healthClasses.get(key) ?? 'failing'] += row.bytes;
      if (!begin(row, key)) waiting.add(key);
    }
    for (const { queue, healthClass, limit, notifications } of picked) {
      const isFull = cameOf.get(queue.key) === limit;
      const isCut = bytesOf[healthClass] >= maxBytes[healthClass];
      if (cameOf.has(queue.key)) active.took(queue, healthClass);
      queue.hasDueWork =
        isFull || isCut || waiting.has(queue.key) || queue.notifications !== notifications;
      queue.idleSinceMs = performance.now();
    }
    hasMore = active.due().length > 0;
  }

  /** What a shop has due when its bytes of the minute are used up waits in the table, not here. */
  async function withoutWaiting(queues: readonly ActiveQueue[]): Promise<readonly ActiveQueue[]> {
    const waiting = new Set<bigint>();
    // Picked once for each shop: its queues wait for the same moment, and one statement puts them off.
    for (const [shopId, ofShop] of Map.groupBy(queues, (queue) => queue.shopId)) {
      const waitMs = o.shopBytes.waitMs(shopId);
      if (waitMs === 0) continue;
      waiting.add(shopId);
      await o.onWait(ofShop, waitMs);
    }
    return queues.filter(({ shopId }) => !waiting.has(shopId));
  }

  function places(
    due: readonly ActiveQueue[],
    { held, maxBytes }: { held: Held; maxBytes: Readonly<Record<HealthClass, number>> },
  ): Map<string, number> {
    const free = freeCapacity({ most: o.concurrency, ...held });
    const capacityOf = (key: string): EndpointCapacity => {
      const capacity = active.capacity(key, inFlight.ofEndpoint(key));
      return maxBytes[capacity.healthClass] > 0 ? capacity : { ...capacity, free: 0 };
    };
    return shareFairly(due, free, { capacityOf, turnOf: active.turnOf });
  }

  /** In the order of their turns: when not all can be read, those go first that waited for longest. */
  function pickedOf(given: ReadonlyMap<string, number>): Picked[] {
    return [...given].flatMap(([key, limit]) => {
      const queue = active.queues.get(key);
      if (!queue) return [];
      const { endpointKey, notifications } = queue;
      const { healthClass } = active.capacity(endpointKey, inFlight.ofEndpoint(endpointKey));
      return [{ queue, healthClass, limit, notifications }];
    });
  }

  function read(
    picked: readonly Picked[],
    maxBytes: Readonly<Record<HealthClass, number>>,
  ): Promise<Due[]> {
    const now = o.retryNowMs();
    const readings = picked.map(({ queue, healthClass, limit }) => ({
      shopId: queue.shopId,
      subscriptionId: queue.subscriptionId,
      endpointId: queue.endpointId,
      limit,
      healthClass,
      mode: modeOf(active.health(queue.endpointKey), now),
      ...startOf(queue),
    }));
    const except = picked.flatMap(({ queue }) => [...inFlight.ofQueue(queue.key)]);
    return readDue(o.pool, readings, { except, maxBytes, offsetMs: o.offsetMs() });
  }

  /** @returns false when it must wait for its shop's bytes. */
  function begin(due: Due, queueKey: string): boolean {
    const queue = active.queues.get(queueKey);
    const health = queue && active.health(queue.endpointKey);
    // Picked at the last moment: a process that was stopped meanwhile begins nothing.
    const token = shards.tokenOf(due.shard);
    if (!queue || !health || token === undefined || inFlight.get(due.id)) return true;
    if (!o.shopBytes.take(due.shopId, due.bytes)) return false;
    noteRead(queue, due);
    const { endpointKey } = queue;
    const healthClass = healthClassOf(health, inFlight.ofEndpoint(endpointKey).slow);
    const startedMs = performance.now();
    const tracked = inFlight.begin({ due, queueKey, endpointKey, token, healthClass, startedMs });
    const leave = active.enter(endpointKey);
    const work = attempt(o, due, token)
      .catch((error: unknown): AttemptResult => {
        o.logger.error({ err: error, delivery: due.id }, 'attempt could not be made');
        o.onPutOff();
        const pauseMs = reschedulePause(o.retryNowMs() - due.queuedAtMs);
        return { due, token, sent: undefined, ended: null, pauseMs };
      })
      .then((attemptResult) => complete(tracked, attemptResult))
      .finally(() => {
        leave();
        open.delete(work);
      });
    open.add(work);
    return true;
  }

  function complete(tracked: TrackedAttempt, attemptResult: AttemptResult): void {
    inFlight.complete(tracked);
    if (attemptResult.sent) noteHealth(tracked, attemptResult.sent.outcome);
    resultWriter.add(spread(attemptResult, tracked.endpointKey));
    if (hasMore) o.onRoom();
  }

  /** Endpoints that begin to fail at the same time are not tried again at the same time. */
  function spread(attemptResult: AttemptResult, endpointKey: string): AttemptResult {
    const failures = active.health(endpointKey)?.failures ?? 0;
    const isRetried = attemptResult.sent !== undefined && attemptResult.ended === null;
    if (!isRetried || failures === 0 || failures > FIRST_FAILURES) return attemptResult;
    return { ...attemptResult, pauseMs: retrySlots.take(attemptResult.pauseMs) };
  }

  function noteHealth({ due, endpointKey, token }: TrackedAttempt, outcome: Outcome): void {
    const { result, status } = outcome;
    const sign = { result, status, deliveryId: due.id, atMs: o.retryNowMs() };
    const noted = active.note(endpointKey, sign);
    if (!noted) return;
    const { shopId, endpointId, shard } = due;
    changes.set(endpointKey, { shopId, endpointId, shard, token, health: noted.health });
    if (noted.isClosed) o.onClosed({ shopId, endpointId });
  }

  /** What was about to be written of its failures must not come after. */
  function reset({ shopId, endpointId }: { shopId: bigint; endpointId: bigint }): void {
    const endpointKey = endpointKeyOf({ shopId, endpointId });
    const shard = shardOf(endpointId);
    const token = shards.tokenOf(shard);
    if (token === undefined || !active.health(endpointKey)) return;
    active.reset(endpointKey);
    changes.set(endpointKey, { shopId, endpointId, shard, token, health: NEW_ENDPOINT });
  }

  return {
    take,
    reset,
    oldestResultMs: resultWriter.oldestMs,
    async drain({ attemptsMs, writeMs }) {
      await Promise.race([Promise.all(open), after(attemptsMs)]);
      await resultWriter.drain(writeMs);
    },
  };
}

interface Picked {
  readonly queue: ActiveQueue;
  readonly healthClass: HealthClass;
  readonly limit: number;
  /** How often it had been told that something is due. */
  readonly notifications: number;
}

function byHealthClass(of: (healthClass: HealthClass) => number): Record<HealthClass, number> {
  return { trusted: of('trusted'), new: of('new'), slow: of('slow'), failing: of('failing') };
}

function after(ms: number): Promise<void> {
  return new Promise((done) => {
    setTimeout(done, ms).unref();
  });
}
