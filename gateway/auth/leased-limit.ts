import type pg from 'pg';
import { RateLimiterPostgres } from 'rate-limiter-flexible';
import type { Logger } from '../../services/platform/log.ts';
import { within } from '../../services/platform/within.ts';
import { ADMITTED, type Admission, refusedFor } from './rate-limits.ts';

const WINDOW_S = 60;
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
  /** Counts one request. Never rejects. @param limit requests a minute for this key. */
  take(key: string, limit: number): Promise<Admission>;
  forget(): void;
}

/**
 * The per-minute limit of REST callers, counted in memory.
 *
 * Each replica leases a tenth of a key's window at a time from Postgres, so a busy key costs ten
 * statements a minute and replica, and all replicas together never admit more than the limit. While
 * the database does not answer, a replica counts by itself: a limit must not become an outage.
 *
 * @param o.patienceMs how long a request waits for the shared count; 1.5 s when absent. Milliseconds.
 */
export function createLeasedLimit(
  pool: pg.Pool,
  logger: Logger,
  { patienceMs = PATIENCE_MS }: { readonly patienceMs?: number } = {},
): LeasedLimit {
  const windows = new Map<string, Window>();
  const counter = new RateLimiterPostgres({
    keyPrefix: 'rest',
    points: UNLIMITED,
    duration: WINDOW_S,
    storeClient: pool,
    storeType: 'pool',
    tableName: 'rate_limits',
    tableCreated: true,
    clearExpiredByTimeout: false,
  });

  const lease = async (key: string, limit: number, window: Window): Promise<void> => {
    const wanted = Math.max(1, Math.floor(limit / LEASE_PART));
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
      window.endsAt = Date.now() + WINDOW_S * 1_000;
    }
  };

  return {
    async take(key, limit) {
      let window = currentWindow(windows, key);
      while (window.left === 0 && !window.spent) {
        const leasing = window;
        leasing.leasing ??= lease(key, limit, leasing).finally(() => {
          leasing.leasing = undefined;
        });
        await leasing.leasing;
        window = currentWindow(windows, key);
      }
      if (window.left === 0) return refusedFor(window.endsAt - Date.now());
      window.left -= 1;
      return ADMITTED;
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
