import { type EndpointHealth, pausedUntil } from '../endpoint/circuit-breaker.ts';
import type { Due, ReadMode } from '../queue/read-due.ts';
import type { StoredQueue, Unloading } from '../queue/ready-queues.ts';
import type { Target } from '../queue/targets.ts';

/**
 * A queue from which this process sends. Its times are by the monotonic clock, except where a comment says otherwise.
 */
export interface ActiveQueue extends StoredQueue {
  readonly loadedAtMs: number;
  /** Whether the queue may have due deliveries that this process has not read. */
  hasDueWork: boolean;
  /** Sequence number of the last grant that the queue got from the fair share. */
  lastGrant: number;
  /**
   * Deliveries that were just committed. While `hasDueWork` is false, this process knows no other due deliveries of the
   * queue. They are also in the table, so they are dropped when the queue must be read.
   */
  readonly fresh: Due[];
  /** When the first of the fresh deliveries was added. */
  freshSinceMs: number;
  /**
   * When the next retries are due, the earliest first. A busy queue is never unloaded, so nothing else would mark it
   * due then. Only the earliest {@link MAX_RETRY_TIMES} are here. A full scan finds the others.
   */
  readonly retriesAtMs: number[];
  /** How often the queue was notified of due work. */
  notifications: number;
  /** When the last read of the queue ended. Infinite during a read. */
  readEndedMs: number;
  /** When the queue last had due work. */
  idleSinceMs: number;
  /** The read cursor: due deliveries before it were read. By the retry clock. */
  freshFromMs: number;
  retriesFromMs: number;
  fullScanAtMs: number;
}

/**
 * How far the read cursor stays behind the clock, because a row may commit after the time at which it is due. Rows that
 * commit even later are found by the next full scan. Milliseconds.
 */
const LATE_COMMIT_MS = 2_000;
const FULL_SCAN_EVERY_MS = 10_000;

/** Maximum number of retries of a queue whose times are in memory. */
const MAX_RETRY_TIMES = 32;
/**
 * Margin for retries, because the clocks of the database and of this process may run at slightly different rates.
 * Milliseconds.
 */
const RETRY_MARGIN_MS = 50;

/**
 * Creates the state of a queue that was just loaded. @param readEndedMs when this process last ended a read of the
 * queue.
 */
export function toActive(stored: StoredQueue, readEndedMs: number): ActiveQueue {
  const now = performance.now();
  return {
    ...stored,
    loadedAtMs: now,
    hasDueWork: true,
    fresh: [],
    freshSinceMs: 0,
    retriesAtMs: [],
    lastGrant: 0,
    notifications: 0,
    readEndedMs,
    idleSinceMs: now,
    freshFromMs: 0,
    retriesFromMs: 0,
    fullScanAtMs: Number.NEGATIVE_INFINITY,
  };
}

/** Returns the current read mode of a queue. @param retryNowMs current time of the retry clock. */
export function modeOf(health: EndpointHealth | undefined, retryNowMs: number): ReadMode {
  if (!health?.circuit) return 'all';
  return retryNowMs >= pausedUntil(health.circuit, retryNowMs) ? 'any-probe' : 'oldest-probe';
}

/**
 * Returns where the next read starts. This is at the cursor. Every ten seconds it is the beginning of the queue, and
 * the cursor moves back there.
 */
export function beginRead(queue: ActiveQueue): { freshFromMs: number; retriesFromMs: number } {
  const now = performance.now();
  if (now - queue.fullScanAtMs > FULL_SCAN_EVERY_MS) {
    queue.fullScanAtMs = now;
    // The next read sets the cursor again. Without this, the cursor would be in the future after the database's clock
    // was set back.
    queue.freshFromMs = 0;
    queue.retriesFromMs = 0;
  }
  return { freshFromMs: queue.freshFromMs, retriesFromMs: queue.retriesFromMs };
}

/**
 * Whether this process knows all due work of the queue, so that fresh deliveries may be sent without reading the queue.
 */
export function takesFresh(queue: ActiveQueue, { endpointId }: Target): boolean {
  const isScanned = performance.now() - queue.fullScanAtMs <= FULL_SCAN_EVERY_MS;
  return !queue.hasDueWork && isScanned && queue.endpointId === endpointId;
}

/** Moves the read cursor past a delivery. @param readAtMs when the read started, by the retry clock. */
export function noteRead(queue: ActiveQueue, { isRetry, dueAtMs }: Due, readAtMs: number): void {
  const from = Math.min(dueAtMs, readAtMs - LATE_COMMIT_MS);
  if (isRetry) queue.retriesFromMs = Math.max(queue.retriesFromMs, from);
  else queue.freshFromMs = Math.max(queue.freshFromMs, from);
}

/** Notes that an attempt failed, so that its delivery is due again after the pause. Milliseconds. */
export function noteRetry({ retriesAtMs }: ActiveQueue, pauseMs: number): void {
  const atMs = performance.now() + pauseMs + RETRY_MARGIN_MS;
  const index = retriesAtMs.findLastIndex((time) => time <= atMs) + 1;
  retriesAtMs.splice(index, 0, atMs);
  if (retriesAtMs.length > MAX_RETRY_TIMES) retriesAtMs.pop();
}

/** Marks the queue as due when one of its retries is due. */
export function markRetriesDue(queue: ActiveQueue, nowMs: number): void {
  const [earliest = Number.POSITIVE_INFINITY] = queue.retriesAtMs;
  if (earliest > nowMs) return;
  const later = queue.retriesAtMs.findIndex((time) => time > nowMs);
  queue.retriesAtMs.splice(0, later < 0 ? queue.retriesAtMs.length : later);
  markDue(queue);
}

/** Whether the queue has due work, or may have some. */
export function isDue({ hasDueWork, fresh }: ActiveQueue): boolean {
  return hasDueWork || fresh.length > 0;
}

/** Notes that the queue has due work, anywhere in it. */
export function markDue(queue: ActiveQueue): void {
  queue.hasDueWork = true;
  queue.notifications += 1;
}

/** Returns the values that an unload of the queue stores. @param retryNowMs current time of the retry clock. */
export function unloadingOf(
  queue: ActiveQueue,
  health: EndpointHealth | undefined,
  retryNowMs: number,
): Unloading {
  const { shopId, subscriptionId, endpointId } = queue;
  const pausedUntilMs = health?.circuit ? pausedUntil(health.circuit, retryNowMs) : null;
  return { shopId, subscriptionId, endpointId, pausedUntilMs };
}
