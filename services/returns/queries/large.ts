import { Code } from '@connectrpc/connect';
import { ErrorReason } from '../../../proto/gen/rms/common/v1/error_pb.ts';
import { DomainError } from '../../platform/errors.ts';
import { createShopPermits } from '../../platform/shop-permits.ts';

/** Above this a return is read under a permit: lines and uploads, as JSON. Bytes. */
export const LARGE_BYTES = 1024 * 1024;

/** One takes several times its size in memory until it is sent. */
const LARGE = { size: 2, maxWaiting: 32, waitMs: 5_000, perShop: { size: 1, maxWaiting: 8 } };

/** A large return is not measured again for so long; it seldom becomes small. Milliseconds. */
const REMEMBER_MS = 60_000;
const MAX_REMEMBERED = 1_000;

/** Returns so large that few of them may be in memory at once. */
export interface LargeReads {
  /** Whether the return was found large a short while ago. */
  isKnown(shopId: bigint, id: bigint): boolean;
  remember(shopId: bigint, id: bigint): void;
  /**
   * Waits until one more of the shop may be read. The permit lasts until the call has ended, its answer sent.
   *
   * @throws ConnectError OVERLOADED; the signal's reason when the caller leaves.
   */
  enter(shopId: bigint, call: AbortSignal): Promise<void>;
}

export function createLargeReads(): LargeReads {
  const permits = createShopPermits(LARGE);
  const known = new Map<string, number>();
  const keyOf = (shopId: bigint, id: bigint): string => `${shopId}:${id}`;

  return {
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
    enter: (shopId, call) => permits.takeUntil(shopId, call),
  };
}

/** RESOURCE_EXHAUSTED: the caller said that it takes less. */
export function answerTooLarge(): DomainError {
  const reason = ErrorReason.ANSWER_TOO_LARGE;
  return new DomainError(Code.ResourceExhausted, reason, 'the return is larger than max_bytes');
}
