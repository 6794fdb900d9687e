import type pg from 'pg';
import { RateLimiterMemory, RateLimiterPostgres, RateLimiterRes } from 'rate-limiter-flexible';
import { createBoundedCache } from './bounded-cache.ts';
import { createCoalescer } from './coalesce.ts';

export type Admission =
  | { readonly admitted: true }
  | {
      readonly admitted: false;
      /** Whole seconds, at least 1. */
      readonly retryAfterS: number;
      /** The request could not be counted, because the database did not answer. */
      readonly unavailable?: true;
    };

export interface RateLimit {
  /** Counts one request of `key`, and returns whether it is admitted. Never rejects. */
  take(key: string): Promise<Admission>;
  /** Whether this process knows that the key has used up its window. Counts nothing. */
  isUsedUp(key: string): boolean;
  /** Clears the state of this process; the shared counters are rows of `rate_limits`. */
  forget(): void;
}

export const ADMITTED: Admission = { admitted: true };

export function refusedFor(ms: number): Admission {
  return { admitted: false, retryAfterS: Math.max(1, Math.ceil(ms / 1_000)) };
}

export interface RateLimitOptions {
  readonly pool: pg.Pool;
  /** Name of the limit. Limits with different names count separately. */
  readonly name: string;
  /** Requests in one window. */
  readonly points: number;
  /** Length of a window, in seconds. */
  readonly windowS: number;
  /**
   * What happens while the database is unavailable: each replica counts alone (the default), or every request is
   * refused. The latter is for limits that protect secrets against guessing.
   */
  readonly whenUnavailable?: 'count-alone' | 'refuse';
}

/** `Retry-After` while the database is unavailable. Seconds. */
const UNAVAILABLE_RETRY_S = 5;

/** Maximum number of used-up keys in memory. */
const MAX_USED_UP = 50_000;

const UNAVAILABLE: Admission = {
  admitted: false,
  retryAfterS: UNAVAILABLE_RETRY_S,
  unavailable: true,
};

/**
 * A limit that is exact over all replicas. It costs one statement per request, or per group of concurrent requests of
 * a key. It is for rare requests, such as failed credentials and sign-ins, and for tool calls. When a key has used up
 * its window, refusing needs no database.
 */
export function createRateLimit(o: RateLimitOptions): RateLimit {
  const shared = { keyPrefix: o.name, points: o.points, duration: o.windowS };
  const usedUp = createBoundedCache<true>(MAX_USED_UP);
  const isStrict = o.whenUnavailable === 'refuse';
  const alone = new RateLimiterMemory(shared);
  const limiter = new RateLimiterPostgres({
    ...shared,
    storeClient: o.pool,
    storeType: 'pool',
    tableName: 'rate_limits',
    tableCreated: true,
    clearExpiredByTimeout: false,
    inMemoryBlockOnConsumed: o.points,
    ...(!isStrict && { insuranceLimiter: alone }),
  });
  const countBy = async (
    by: Pick<RateLimiterMemory, 'consume'>,
    key: string,
    count: number,
  ): Promise<readonly Admission[]> => {
    try {
      await by.consume(key, count);
      return new Array(count).fill(ADMITTED);
    } catch (refusal) {
      // Other errors come from the pool or the database. They occur only without an insurance limiter.
      if (!(refusal instanceof RateLimiterRes)) return new Array(count).fill(UNAVAILABLE);
      usedUp.set(key, true, refusal.msBeforeNext);
      const refused = refusedFor(refusal.msBeforeNext);
      // The points that were left admit the first requests of the group. For a key that this process knows to be
      // used up, the library returns no count.
      const left = Math.max(0, o.points - (refusal.consumedPoints - count));
      const admitted = refusal.consumedPoints > o.points ? left : 0;
      return Array.from({ length: count }, (_, at) => (at < admitted ? ADMITTED : refused));
    }
  };
  const coalesced = createCoalescer((key, count) => countBy(limiter, key, count));
  /** The fallback when the database takes too long. */
  const withoutDatabase = async (key: string): Promise<Admission> => {
    const [admission] = isStrict ? [] : await countBy(alone, key, 1);
    return admission ?? UNAVAILABLE;
  };
  return {
    take: (key) => coalesced(key).catch(() => withoutDatabase(key)),
    isUsedUp: (key) => usedUp.get(key) ?? false,
    forget() {
      usedUp.clear();
      limiter.deleteInMemoryBlockedAll();
    },
  };
}
