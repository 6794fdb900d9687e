import type pg from 'pg';
import { RateLimiterMemory, RateLimiterPostgres, RateLimiterRes } from 'rate-limiter-flexible';
import { createBoundedCache } from './bounded-cache.ts';
import { createGathering } from './gathered.ts';

export type Admission =
  | { readonly admitted: true }
  | {
      readonly admitted: false;
      /** Whole seconds, at least 1. */
      readonly retryAfterS: number;
      /** Nothing is known about the key: the database that counts did not answer. */
      readonly away?: true;
    };

export interface RateLimit {
  /** Counts one request of `key`, and says whether it may go on. Never rejects. */
  take(key: string): Promise<Admission>;
  /** Whether this process knows that the key has used up its window. Counts nothing. */
  isUsedUp(key: string): boolean;
  /** Forgets which keys are used up; the shared counters are rows of `rate_limits`. */
  forget(): void;
}

export const ADMITTED: Admission = { admitted: true };

export function refusedFor(ms: number): Admission {
  return { admitted: false, retryAfterS: Math.max(1, Math.ceil(ms / 1_000)) };
}

export interface RateLimitOptions {
  readonly pool: pg.Pool;
  /** Names the bucket; keys of two buckets never meet. */
  readonly name: string;
  /** Requests in one window. */
  readonly points: number;
  /** Length of a window, in seconds. */
  readonly windowS: number;
  /**
   * What happens while the database is away: each replica counts by itself (the default), or nobody
   * is let through, where a limit guards secrets that could be guessed.
   */
  readonly whenAway?: 'count-alone' | 'refuse';
}

/** After so long it is worth asking again whether the database has come back. Seconds. */
const AWAY_RETRY_S = 5;

/** Keys in memory whose window is used up. */
const MAX_USED_UP = 50_000;

const AWAY: Admission = { admitted: false, retryAfterS: AWAY_RETRY_S, away: true };

/**
 * A limit that holds over all replicas, one statement for each counted request, or for those of a key
 * that come at once: for requests that are rare, such as refused credentials and sign-in, and for calls
 * of tools. Once a key has used up its window the answer needs no database.
 */
export function createRateLimit(o: RateLimitOptions): RateLimit {
  const shared = { keyPrefix: o.name, points: o.points, duration: o.windowS };
  const usedUp = createBoundedCache<true>(MAX_USED_UP);
  const isStrict = o.whenAway === 'refuse';
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
      // All else is the pool's or the database's: with an insurance it never comes this far.
      if (!(refusal instanceof RateLimiterRes)) return new Array(count).fill(AWAY);
      usedUp.set(key, true, refusal.msBeforeNext);
      const refused = refusedFor(refusal.msBeforeNext);
      // What is left of the window is for the first of them. A key that this process remembers as
      // used up comes back without a count.
      const left = Math.max(0, o.points - (refusal.consumedPoints - count));
      const admitted = refusal.consumedPoints > o.points ? left : 0;
      return Array.from({ length: count }, (_, at) => (at < admitted ? ADMITTED : refused));
    }
  };
  const together = createGathering((key, count) => countBy(limiter, key, count));
  /** For whom the database has taken too long. */
  const late = async (key: string): Promise<Admission> => {
    const [admission] = isStrict ? [] : await countBy(alone, key, 1);
    return admission ?? AWAY;
  };
  return {
    take: (key) => together(key).catch(() => late(key)),
    isUsedUp: (key) => usedUp.get(key) ?? false,
    forget() {
      usedUp.clear();
      limiter.deleteInMemoryBlockedAll();
    },
  };
}
