import { Code } from '@connectrpc/connect';
import { ErrorReason } from '../../../proto/gen/rms/common/v1/error_pb.ts';
import { createShopPermits } from '../../platform/process/permits.ts';
import { currentCaller } from '../../platform/rpc/caller.ts';
import { DomainError } from '../../platform/values/errors.ts';

/**
 * Above this size, a return needs a permit to be read or changed. The size is that of its line items and uploads, as
 * JSON. Bytes.
 */
export const LARGE_BYTES = 1024 * 1024;

/**
 * The permits for large returns. There are few, because a large return takes several times its size in memory until it
 * is sent.
 */
const LARGE = { size: 2, maxWaiting: 32, waitMs: 5_000, perShop: { size: 1, maxWaiting: 8 } };

/** How long a return counts as large after it was measured. It seldom becomes smaller. Milliseconds. */
const REMEMBER_MS = 60_000;
const MAX_REMEMBERED = 1_000;

/** Limits how many large returns are in memory at the same time. */
export interface LargeWork {
  /** Whether the return was found to be large in the last minute. */
  isKnown(shopId: bigint, id: bigint): boolean;
  remember(shopId: bigint, id: bigint): void;
  /** Whether the current call already has a permit. */
  isPermitted(): boolean;
  /**
   * Waits for a permit, and then runs `work` with large returns. The permit lasts until the response of the current
   * call is sent. Without a call, it lasts until the work is done. The caller must not have a database connection,
   * because calls that have a permit wait for connections.
   *
   * @throws ConnectError OVERLOADED; the abort reason when the call ends before it gets a permit.
   */
  within<T>(shopId: bigint, work: () => Promise<T>): Promise<T>;
}

/** Creates the permits of one process. All its pools share them, because they share its memory. */
export function createLargeWork(): LargeWork {
  const permits = createShopPermits(LARGE);
  /** Calls that have a permit. A call that waited for a second permit would wait for itself. */
  const permitted = new WeakSet<AbortSignal>();
  const largeUntil = new Map<string, number>();
  const keyOf = (shopId: bigint, id: bigint): string => `${shopId}:${id}`;
  const isPermitted = (): boolean => {
    const call = currentCaller();
    return call !== undefined && permitted.has(call);
  };

  return {
    isPermitted,
    isKnown(shopId, id) {
      const until = largeUntil.get(keyOf(shopId, id));
      return until !== undefined && performance.now() < until;
    },
    remember(shopId, id) {
      const key = keyOf(shopId, id);
      largeUntil.delete(key);
      largeUntil.set(key, performance.now() + REMEMBER_MS);
      const [oldest] = largeUntil.keys();
      if (largeUntil.size > MAX_REMEMBERED && oldest !== undefined) largeUntil.delete(oldest);
    },
    async within(shopId, work) {
      const call = currentCaller();
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

/** The error for a return that is larger than the caller accepts (RESOURCE_EXHAUSTED). */
export function returnLargerThanAccepted(): DomainError {
  const reason = ErrorReason.ANSWER_TOO_LARGE;
  return new DomainError(Code.ResourceExhausted, reason, 'the return is larger than max_bytes');
}
