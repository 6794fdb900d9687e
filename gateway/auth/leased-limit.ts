import type pg from 'pg';
import { RateLimiterPostgres } from 'rate-limiter-flexible';
import { deadline } from '../../services/platform/process/deadlines.ts';
import { within } from '../../services/platform/process/within.ts';
import type { Logger } from '../../services/platform/telemetry/log.ts';
import { ADMITTED, type Admission, type RestOfWindow, rejectedFor } from './rate-limits.ts';

const MINUTE_S = 60;
/** Divisor of a lease: a replica leases a tenth of a window's points at a time. */
const LEASE_DIVISOR = 10;
/** Maximum time that a request waits for the shared counter. Milliseconds. */
const TIMEOUT_MS = deadline(1_500);
/** How long a replica counts alone before it asks the shared counter again. Milliseconds. */
const RETRY_MS = 60_000;
/** Maximum number of windows in memory. Above it, the oldest window is dropped. */
const MAX_WINDOWS = 50_000;
/** The limit for the library. It is larger than any limit of ours, so the library only counts and never rejects. */
const UNLIMITED = 2_000_000_000;

interface Window {
  /** Points leased and not yet used. */
  left: number;
  /** Points of the window that no replica had leased when this replica took its last lease. */
  unleased: number;
  /** Whether no more points can be leased before the window ends. */
  isSpent: boolean;
  /** End of the window, or the time of the next lease of a replica that counts alone. Milliseconds since 1970. */
  endsAt: number;
  /** Set while the replica counts alone. */
  alone: CountAlone | undefined;
  /** The pending lease. All requests that wait for it share it. */
  leasing: Promise<void> | undefined;
}

/** What a replica counts while the database is unavailable. */
interface CountAlone {
  /** Points used. The next lease adds them to the shared counter. */
  used: number;
  /** End of the window, milliseconds since 1970. */
  readonly endsAt: number;
}

export interface LeasedLimit {
  /**
   * Counts one request. Never throws. A request that costs more than the remaining points is rejected and uses them up,
   * because the gateway has already done the work that the points pay for.
   *
   * @param limit points per window for this key.
   * @param points cost of the request, 1 when absent. A cost above `limit` counts as `limit`, so that a new window
   *   admits every request.
   */
  take(key: string, limit: number, points?: number): Promise<Admission>;
  /** Whether this process knows that the key has no points left in its window. Counts nothing. */
  isUsedUp(key: string): boolean;
  /**
   * What is left of the current window of a key, as far as this process knows: other replicas may have used some of it.
   * Undefined when this process has counted nothing in the window. Counts nothing.
   */
  rest(key: string): RestOfWindow | undefined;
  /** Clears the state of this process; the shared counters are rows of `rate_limits`. */
  reset(): void;
}

export interface LeasedLimitOptions {
  /** Name of the limit, `rest` when absent. Limits with different names count separately. */
  readonly name?: string;
  /** Length of a window, a minute when absent. Seconds. */
  readonly windowS?: number;
  /** Divisor of a lease: its size is the limit divided by this number; 10 when absent. */
  readonly leaseDivisor?: number;
  /** Maximum time that a request waits for the shared counter; 1.5 s when absent. Milliseconds. */
  readonly timeoutMs?: number | undefined;
}

/**
 * A rate limit for frequent callers, counted in memory.
 *
 * Each replica leases a tenth of a key's points from PostgreSQL at a time. So a busy key costs ten statements per
 * window and replica, and all replicas together never admit more than the limit. While the database is unavailable,
 * each replica counts alone, because a limit must not cause an outage. It then admits the limit once in a window, and
 * tries to lease again after a minute.
 */
export function createLeasedLimit(
  pool: pg.Pool,
  logger: Logger,
  {
    name = 'rest',
    windowS = MINUTE_S,
    leaseDivisor = LEASE_DIVISOR,
    timeoutMs = TIMEOUT_MS,
  }: LeasedLimitOptions = {},
): LeasedLimit {
  const windows = new Map<string, Window>();
  const counter = sharedCounter(pool, { name, windowS });

  return {
    async take(key, limit, points = 1) {
      let missing = Math.min(points, limit);
      for (;;) {
        const window = currentWindow(windows, key);
        const used = Math.min(window.left, missing);
        window.left -= used;
        if (window.alone) window.alone.used += used;
        missing -= used;
        if (missing === 0) return ADMITTED;
        if (window.isSpent) return rejectedFor(window.endsAt - Date.now());
        const requested = Math.max(1, Math.floor(limit / leaseDivisor), missing);
        const lease = { counter, logger, timeoutMs, windowS, key, limit, requested };
        window.leasing ??= leasePoints(window, lease).finally(() => {
          window.leasing = undefined;
        });
        await window.leasing;
      }
    },
    isUsedUp(key) {
      const window = windows.get(key);
      return window ? window.isSpent && window.left === 0 && window.endsAt > Date.now() : false;
    },
    rest(key) {
      const window = windows.get(key);
      const ms = window ? window.endsAt - Date.now() : 0;
      if (!window || ms <= 0 || ms === Number.POSITIVE_INFINITY) return undefined;
      return { points: window.left + window.unleased, seconds: Math.max(1, Math.ceil(ms / 1_000)) };
    },
    reset: () => windows.clear(),
  };
}

/** Leases points for a window. While the database is unavailable, this replica counts alone. */
async function leasePoints(
  window: Window,
  o: {
    readonly counter: RateLimiterPostgres;
    readonly logger: Logger;
    readonly timeoutMs: number;
    readonly windowS: number;
    readonly key: string;
    readonly limit: number;
    readonly requested: number;
  },
): Promise<void> {
  const { limit, requested } = o;
  const usedAlone = window.alone?.used ?? 0;
  try {
    const counted = await withTimeout(o.counter.consume(o.key, requested + usedAlone), o.timeoutMs);
    const granted = Math.min(requested, Math.max(0, requested - (counted.consumedPoints - limit)));
    window.left = granted;
    window.unleased = Math.max(0, limit - counted.consumedPoints);
    window.isSpent = granted === 0;
    window.endsAt = Date.now() + counted.msBeforeNext;
    window.alone = undefined;
  } catch (error) {
    o.logger.warn({ err: error }, 'rate limit counted by this replica alone');
    countAlone(window, { limit, windowS: o.windowS });
  }
}

/** Lets this replica count alone until it asks the shared counter again. */
function countAlone(
  window: Window,
  { limit, windowS }: { readonly limit: number; readonly windowS: number },
): void {
  window.alone ??= { used: 0, endsAt: Date.now() + windowS * 1_000 };
  window.left = Math.max(0, limit - window.alone.used);
  window.unleased = 0;
  window.isSpent = true;
  window.endsAt = Math.min(window.alone.endsAt, Date.now() + RETRY_MS);
}

/** Counts in `rate_limits` the points that all replicas have leased. */
function sharedCounter(pool: pg.Pool, o: { name: string; windowS: number }): RateLimiterPostgres {
  return new RateLimiterPostgres({
    keyPrefix: o.name,
    points: UNLIMITED,
    duration: o.windowS,
    storeClient: pool,
    storeType: 'pool',
    tableName: 'rate_limits',
    tableCreated: true,
    clearExpiredByTimeout: false,
  });
}

function currentWindow(windows: Map<string, Window>, key: string): Window {
  const current = windows.get(key);
  if (current && (current.leasing || current.endsAt > Date.now())) return current;
  const alone = current?.alone;
  const next: Window = {
    left: 0,
    unleased: 0,
    isSpent: false,
    endsAt: Number.POSITIVE_INFINITY,
    alone: alone && alone.endsAt > Date.now() ? alone : undefined,
    leasing: undefined,
  };
  windows.delete(key);
  windows.set(key, next);
  const [oldest] = windows.keys();
  if (windows.size > MAX_WINDOWS && oldest !== undefined) windows.delete(oldest);
  return next;
}

/** Waits for a count. @throws when the count fails or takes too long. */
async function withTimeout<T>(counting: Promise<T>, timeoutMs: number): Promise<T> {
  if (!(await within(timeoutMs, counting)))
    throw new Error('the rate limit counter did not respond in time');
  return counting;
}
