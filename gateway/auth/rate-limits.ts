import type pg from 'pg';
import { RateLimiterMemory, RateLimiterPostgres, RateLimiterRes } from 'rate-limiter-flexible';
import { createBoundedCache } from './bounded-cache.ts';
import { createCoalescer } from './coalesce.ts';

export type Admission =
  | { readonly admitted: true }
  | {
      readonly admitted: false;
      /** How long the caller should wait. Whole seconds, at least 1. */
      readonly retryAfterS: number;
      /** The request could not be counted, because the database is unavailable. */
      readonly unavailable?: true;
    };

export interface RateLimit {
  /** Points of one window. A request costs one. */
  readonly points: number;
  /** Counts one request of `key`, and returns whether it is admitted. Never throws. */
  take(key: string): Promise<Admission>;
  /** Whether this process knows that the key has used up its window. Counts nothing. */
  isUsedUp(key: string): boolean;
  /**
   * What this process knows of the rest of a key's window. It is a whole window when this process has counted nothing.
   * Counts nothing.
   */
  rest(key: string): RestOfWindow;
  /** Clears the state of this process; the shared counters are rows of `rate_limits`. */
  reset(): void;
}

/** The rest of a window. */
export interface RestOfWindow {
  readonly points: number;
  /** Time until the next window. Whole seconds, at least 1. */
  readonly seconds: number;
}

export const ADMITTED: Admission = { admitted: true };

/** A rejection until the window ends. @param ms time until then, in milliseconds. */
export function rejectedFor(ms: number): Admission {
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
   * What happens while the database is unavailable. `count-alone` (the default): each replica counts in its memory.
   * `reject`: every request is rejected; this is for limits that protect secrets against guessing.
   */
  readonly whenUnavailable?: 'count-alone' | 'reject';
}

/** `Retry-After` while the database is unavailable. Seconds. */
const UNAVAILABLE_RETRY_S = 5;

/** Maximum number of keys in memory: of those that are used up, and of those whose rest is known. */
const MAX_KEYS = 50_000;

const UNAVAILABLE: Admission = {
  admitted: false,
  retryAfterS: UNAVAILABLE_RETRY_S,
  unavailable: true,
};

/**
 * Returns the admissions of a group of requests that used up a window. The points that were left admit the first
 * requests of the group. When this process knows that the key is used up, the library returns no count.
 */
function admissionsOf(
  { consumedPoints, msBeforeNext }: RateLimiterRes,
  { points, count }: { readonly points: number; readonly count: number },
): readonly Admission[] {
  const rejected = rejectedFor(msBeforeNext);
  const left = Math.max(0, points - (consumedPoints - count));
  const admitted = consumedPoints > points ? left : 0;
  return Array.from({ length: count }, (_, at) => (at < admitted ? ADMITTED : rejected));
}

/**
 * Creates a limit that is exact over all replicas. It costs one statement for each request, or for each group of
 * concurrent requests of a key. It is for rare requests, such as failed credentials and sign-ins, and for tool calls.
 * When a key has used up its window, its requests are rejected without a statement.
 *
 * The limit of REST is a `createLeasedLimit`. `createLimits` in `start.ts` creates all limits of a gateway.
 */
export function createRateLimit(o: RateLimitOptions): RateLimit {
  const settings = { keyPrefix: o.name, points: o.points, duration: o.windowS };
  const usedUp = createBoundedCache<true>(MAX_KEYS);
  const rests = createBoundedCache<{ readonly points: number; readonly endsAt: number }>(MAX_KEYS);
  const noteRest = (key: string, { remainingPoints: points, msBeforeNext: ms }: RateLimiterRes) =>
    rests.set(key, { points, endsAt: performance.now() + ms }, ms);
  const isStrict = o.whenUnavailable === 'reject';
  const ownLimiter = new RateLimiterMemory(settings);
  const sharedLimiter = new RateLimiterPostgres({
    ...settings,
    storeClient: o.pool,
    storeType: 'pool',
    tableName: 'rate_limits',
    tableCreated: true,
    clearExpiredByTimeout: false,
    inMemoryBlockOnConsumed: o.points,
    ...(!isStrict && { insuranceLimiter: ownLimiter }),
  });
  const countWith = async (
    limiter: Pick<RateLimiterMemory, 'consume'>,
    key: string,
    count: number,
  ): Promise<readonly Admission[]> => {
    try {
      noteRest(key, await limiter.consume(key, count));
      return new Array(count).fill(ADMITTED);
    } catch (error) {
      // Errors of the pool and the database occur here only with `reject`. Otherwise the library counts with
      // `insuranceLimiter` instead.
      if (!(error instanceof RateLimiterRes)) return new Array(count).fill(UNAVAILABLE);
      usedUp.set(key, true, error.msBeforeNext);
      noteRest(key, error);
      return admissionsOf(error, { points: o.points, count });
    }
  };
  const coalesced = createCoalescer((key, count) => countWith(sharedLimiter, key, count));
  /** Counts in the memory of this replica, when the database takes too long. */
  const withoutDatabase = async (key: string): Promise<Admission> => {
    const [admission] = isStrict ? [] : await countWith(ownLimiter, key, 1);
    return admission ?? UNAVAILABLE;
  };
  return {
    points: o.points,
    take: (key) => coalesced(key).catch(() => withoutDatabase(key)),
    isUsedUp: (key) => usedUp.get(key) ?? false,
    rest(key) {
      const { points, endsAt } = rests.get(key) ?? { points: o.points, endsAt: undefined };
      const ms = endsAt === undefined ? o.windowS * 1_000 : endsAt - performance.now();
      return { points, seconds: Math.max(1, Math.ceil(ms / 1_000)) };
    },
    reset() {
      usedUp.clear();
      rests.clear();
      sharedLimiter.deleteInMemoryBlockedAll();
    },
  };
}
