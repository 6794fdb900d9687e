import type pg from 'pg';
import { RateLimiterPostgres } from 'rate-limiter-flexible';
import type { Logger } from '../../services/platform/log.ts';
import { within } from '../../services/platform/within.ts';
import { ADMITTED, type Admission, refusedFor } from './rate-limits.ts';

const MINUTE_S = 60;
/** A replica takes this part of a window's points at once. */
const LEASE_PART = 10;
/** A request waits no longer for the shared count. Milliseconds. */
const PATIENCE_MS = 1_500;
/** Windows kept in memory; the one written longest ago is dropped above it. */
const MAX_WINDOWS = 50_000;
/** More than any window counts: the library must not refuse, only count. */
const UNLIMITED = 2_000_000_000;

interface Window {
  /** Points leased and not yet used. */
  left: number;
  /** No more leases are to be had before the window ends. */
  spent: boolean;
  /** End of the window, milliseconds since 1970. */
  endsAt: number;
  /** The lease being taken, which all waiting requests share. */
  leasing: Promise<void> | undefined;
}

export interface LeasedLimit {
  /**
   * Counts one request. Never rejects. What is too much for the rest of the window uses that rest up:
   * the work that the points stand for has been done.
   *
   * @param limit points a window for this key.
   * @param points what the request costs, 1 when absent; never more than `limit`, so that a full window
   *   admits any request.
   */
  take(key: string, limit: number, points?: number): Promise<Admission>;
  /** Whether this process knows that the key has used up its window. Counts nothing. */
  isUsedUp(key: string): boolean;
  forget(): void;
}

export interface LeasedLimitOptions {
  /** Names the bucket, `rest` when absent; keys of two buckets never meet. */
  readonly name?: string;
  /** Length of a window, a minute when absent. Seconds. */
  readonly windowS?: number;
  /** A replica takes this part of a window's points at once; a tenth when absent. */
  readonly leasePart?: number;
  /** How long a request waits for the shared count; 1.5 s when absent. Milliseconds. */
  readonly patienceMs?: number;
}

/**
 * A limit for callers that come often, counted in memory.
 *
 * Each replica leases a tenth of a key's window at a time from Postgres, so a busy key costs ten
 * statements a window and replica, and all replicas together never admit more than the limit. While
 * the database does not answer, a replica counts by itself: a limit must not become an outage.
 */
export function createLeasedLimit(
  pool: pg.Pool,
  logger: Logger,
  {
    name = 'rest',
    windowS = MINUTE_S,
    leasePart = LEASE_PART,
    patienceMs = PATIENCE_MS,
  }: LeasedLimitOptions = {},
): LeasedLimit {
  const windows = new Map<string, Window>();
  const counter = new RateLimiterPostgres({
    keyPrefix: name,
    points: UNLIMITED,
    duration: windowS,
    storeClient: pool,
    storeType: 'pool',
    tableName: 'rate_limits',
    tableCreated: true,
    clearExpiredByTimeout: false,
  });

  const lease = async (
    key: string,
    limit: number,
    { window, missing }: { window: Window; missing: number },
  ): Promise<void> => {
    const wanted = Math.max(1, Math.floor(limit / leasePart), missing);
    try {
      const counted = await withPatience(counter.consume(key, wanted), patienceMs);
      const granted = Math.min(wanted, Math.max(0, wanted - (counted.consumedPoints - limit)));
      window.left = granted;
      window.spent = granted === 0;
      window.endsAt = Date.now() + counted.msBeforeNext;
    } catch (error) {
      logger.warn({ err: error }, 'rate limit counted by this replica alone');
      window.left = limit;
      window.spent = true;
      window.endsAt = Date.now() + MINUTE_S * 1_000;
    }
  };

  return {
    async take(key, limit, points = 1) {
      let missing = Math.min(points, limit);
      for (;;) {
        const window = currentWindow(windows, key);
        const used = Math.min(window.left, missing);
        window.left -= used;
        missing -= used;
        if (missing === 0) return ADMITTED;
        if (window.spent) return refusedFor(window.endsAt - Date.now());
        window.leasing ??= lease(key, limit, { window, missing }).finally(() => {
          window.leasing = undefined;
        });
        await window.leasing;
      }
    },
    isUsedUp(key) {
      const window = windows.get(key);
      return window ? window.spent && window.left === 0 && window.endsAt > Date.now() : false;
    },
    forget: () => windows.clear(),
  };
}

function currentWindow(windows: Map<string, Window>, key: string): Window {
  const known = windows.get(key);
  if (known && (known.leasing || known.endsAt > Date.now())) return known;
  const fresh: Window = {
    left: 0,
    spent: false,
    endsAt: Number.POSITIVE_INFINITY,
    leasing: undefined,
  };
  windows.delete(key);
  windows.set(key, fresh);
  const [oldest] = windows.keys();
  if (windows.size > MAX_WINDOWS && oldest !== undefined) windows.delete(oldest);
  return fresh;
}

/** @throws when the count does not come in time, or fails. */
async function withPatience<T>(counting: Promise<T>, patienceMs: number): Promise<T> {
  if (!(await within(patienceMs, counting))) throw new Error('the count did not answer');
  return counting;
}
