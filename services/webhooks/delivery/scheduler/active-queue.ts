import { type EndpointHealth, pausedUntil } from '../endpoint/circuit-breaker.ts';
import type { Due, ReadMode } from '../queue/read-due.ts';
import type { StoredQueue, Unloading } from '../queue/ready-queues.ts';
import type { Target } from '../queue/targets.ts';

/** A queue from which this process sends. Times are by the monotonic clock unless the comment names another clock. */
export interface ActiveQueue extends StoredQueue {
  readonly loadedAtMs: number;
  /** Whether the queue may have due deliveries that were not read. */
  hasDueWork: boolean;
  /** Sequence number of its last grant by the fair share. */
  lastGrant: number;
  /**
   * Deliveries that were just committed. While `hasDueWork` is false, this process knows of no other due deliveries. The
   * table also has them, so they are dropped when the queue must be read.
   */
  readonly fresh: Due[];
  /** When the first of them was added. */
  freshSinceMs: number;
  /**
   * When the next retries are due, the earliest first. A busy queue is never unloaded, so nothing else marks it due at
   * that time. Only the earliest {@link MAX_RETRY_TIMES} are here; a full scan finds the others.
   */
  readonly retriesAtMs: number[];
  /** Number of notifications of due work. */
  notifications: number;
  /** When the last read of the queue ended; infinite during a read. */
  readEndedMs: number;
  /** When the queue last had due work. */
  idleSinceMs: number;
  /** Read cursor: earlier due deliveries were read; by the retry clock. */
  freshFromMs: number;
  retriesFromMs: number;
  fullScanAtMs: number;
}

/**
 * A row may commit this long after the time at which it is due. The read cursor stays so far behind the clock. Rows that
 * commit later are found by the next full scan.
 */
const LATE_COMMIT_MS = 2_000;
const FULL_SCAN_EVERY_MS = 10_000;

/** Maximum number of retries of one queue whose times are in memory. */
const MAX_RETRY_TIMES = 32;
/** The clocks of the database and of this process need not run at exactly the same rate. Milliseconds. */
const RETRY_MARGIN_MS = 50;

/** Creates the state of a queue that was just loaded. @param readEndedMs when this process last ended a read of it. */
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

/** Returns the read mode for now. @param retryNowMs current time of the retry clock. */
export function modeOf(health: EndpointHealth | undefined, retryNowMs: number): ReadMode {
  if (!health?.circuit) return 'all';
  return retryNowMs >= pausedUntil(health.circuit, retryNowMs) ? 'any-probe' : 'oldest-probe';
}

/**
 * Returns where the next read starts: at the cursor. Every ten seconds it starts at the beginning of the queue, and the
 * cursor goes back there.
 */
export function beginRead(queue: ActiveQueue): { freshFromMs: number; retriesFromMs: number } {
  const now = performance.now();
  if (now - queue.fullScanAtMs > FULL_SCAN_EVERY_MS) {
    queue.fullScanAtMs = now;
    // The next read sets the cursor again. After the database's clock was set back it would be in the future.
    queue.freshFromMs = 0;
    queue.retriesFromMs = 0;
  }
  return { freshFromMs: queue.freshFromMs, retriesFromMs: queue.retriesFromMs };
}

/** Whether all due work of the queue is known, so that fresh deliveries may start without a read. */
export function takesFresh(queue: ActiveQueue, { endpointId }: Target): boolean {
  const isScanned = performance.now() - queue.fullScanAtMs <= FULL_SCAN_EVERY_MS;
  return !queue.hasDueWork && isScanned && queue.endpointId === endpointId;
}

/** Moves the read cursor. @param readAtMs when the read started, by the retry clock. */
export function noteRead(queue: ActiveQueue, { isRetry, dueAtMs }: Due, readAtMs: number): void {
  const from = Math.min(dueAtMs, readAtMs - LATE_COMMIT_MS);
  if (isRetry) queue.retriesFromMs = Math.max(queue.retriesFromMs, from);
  else queue.freshFromMs = Math.max(queue.freshFromMs, from);
}

/** An attempt failed; the delivery is due again after the pause. Milliseconds. */
export function noteRetry({ retriesAtMs }: ActiveQueue, pauseMs: number): void {
  const atMs = performance.now() + pauseMs + RETRY_MARGIN_MS;
  const index = retriesAtMs.findLastIndex((time) => time <= atMs) + 1;
  retriesAtMs.splice(index, 0, atMs);
  if (retriesAtMs.length > MAX_RETRY_TIMES) retriesAtMs.pop();
}

/** Marks the queue due when a retry is. */
export function markRetriesDue(queue: ActiveQueue, nowMs: number): void {
  const [earliest = Number.POSITIVE_INFINITY] = queue.retriesAtMs;
  if (earliest > nowMs) return;
  const later = queue.retriesAtMs.findIndex((time) => time > nowMs);
  queue.retriesAtMs.splice(0, later < 0 ? queue.retriesAtMs.length : later);
  markDue(queue);
}

/** Whether the queue has or may have due work. */
export function isDue({ hasDueWork, fresh }: ActiveQueue): boolean {
  return hasDueWork || fresh.length > 0;
}

/** Notes that the queue has due work, at any position. */
export function markDue(queue: ActiveQueue): void {
  queue.hasDueWork = true;
  queue.notifications += 1;
}

/** Returns the values that an unload stores. @param retryNowMs current time of the retry clock. */
export function unloadingOf(
  queue: ActiveQueue,
  health: EndpointHealth | undefined,
  retryNowMs: number,
): Unloading {
  const { shopId, subscriptionId, endpointId } = queue;
  const pausedUntilMs = health?.circuit ? pausedUntil(health.circuit, retryNowMs) : null;
  return { shopId, subscriptionId, endpointId, pausedUntilMs };
}
