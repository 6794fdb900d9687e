import { Code } from '@connectrpc/connect';
import type pg from 'pg';
import { ErrorReason } from '../../../proto/gen/rms/common/v1/error_pb.ts';
import { presentCaller } from '../../platform/caller.ts';
import { DomainError } from '../../platform/errors.ts';
import { createShopPermits } from '../../platform/shop-permits.ts';

/** Above this, returns are read and changed under a permit: lines and uploads, as JSON. Bytes. */
export const LARGE_BYTES = 1024 * 1024;

/** One takes several times its size in memory until it is sent. */
const LARGE = { size: 2, maxWaiting: 32, waitMs: 5_000, perShop: { size: 1, maxWaiting: 8 } };

/** A large return is not measured again for so long; it seldom becomes small. Milliseconds. */
const REMEMBER_MS = 60_000;
const MAX_REMEMBERED = 1_000;

/** Returns so large that few of them may be in memory at once. */
export interface LargeWork {
  /** Whether the return was found large a short while ago. */
  isKnown(shopId: bigint, id: bigint): boolean;
  remember(shopId: bigint, id: bigint): void;
  /** Whether the present call has a permit already. */
  isPermitted(): boolean;
  /**
   * Does work with large returns once few others are in memory. The permit lasts until the call that the
   * work is for has ended, its answer sent; without a call, until the work is done. No connection may be
   * held: those who have a permit wait for connections.
   *
   * @throws ConnectError OVERLOADED; the reason of the call's end.
   */
  within<T>(shopId: bigint, work: () => Promise<T>): Promise<T>;
}

const ofPools = new WeakMap<pg.Pool, LargeWork>();

/** Has the pools of one process, which share its memory, share the permits too. */
export function shareLarge(...pools: readonly pg.Pool[]): void {
  const large = createLargeWork();
  for (const pool of pools) ofPools.set(pool, large);
}

/** What bounds large returns that are read by way of this pool. */
export function largeOf(pool: pg.Pool): LargeWork {
  const known = ofPools.get(pool);
  if (known) return known;
  const large = createLargeWork();
  ofPools.set(pool, large);
  return large;
}

function createLargeWork(): LargeWork {
  const permits = createShopPermits(LARGE);
  /** A call that has a permit needs no other: it would wait for itself. */
  const permitted = new WeakSet<AbortSignal>();
  const known = new Map<string, number>();
  const keyOf = (shopId: bigint, id: bigint): string => `${shopId}:${id}`;
  const isPermitted = (): boolean => {
    const call = presentCaller();
    return call !== undefined && permitted.has(call);
  };

  return {
    isPermitted,
    isKnown(shopId, id) {
      const until = known.get(keyOf(shopId, id));
      return until !== undefined && performance.now() < until;
    },
    remember(shopId, id) {
      const key = keyOf(shopId, id);
      known.delete(key);
      known.set(key, performance.now() + REMEMBER_MS);
      const [oldest] = known.keys();
      if (known.size > MAX_REMEMBERED && oldest !== undefined) known.delete(oldest);
    },
    async within(shopId, work) {
      const call = presentCaller();
      if (call) {
        if (!isPermitted()) await permits.takeUntil(shopId, call);
        permitted.add(call);
        return work();
      }
      const done = new AbortController();
      await permits.takeUntil(shopId, done.signal);
      try {
        return await work();
      } finally {
        done.abort();
      }
    },
  };
}

/** RESOURCE_EXHAUSTED: the caller said that it takes less. */
export function answerTooLarge(): DomainError {
  const reason = ErrorReason.ANSWER_TOO_LARGE;
  return new DomainError(Code.ResourceExhausted, reason, 'the return is larger than max_bytes');
}
