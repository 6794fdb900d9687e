import { Code } from '@connectrpc/connect';
import { ErrorReason } from '../../../proto/gen/rms/common/v1/error_pb.ts';
import { DomainError, overloaded } from '../../platform/errors.ts';
import { createPermits, NoPermit } from '../../platform/permits.ts';

/** Above this a return is read under a permit: lines and uploads, as JSON. Bytes. */
export const LARGE_BYTES = 1024 * 1024;

/** One takes several times its size in memory until it is sent. */
const MOST_AT_ONCE = 2;
const MAX_WAITING = 32;
const WAIT_MS = 5_000;

/** A large return is not measured again for so long; it seldom becomes small. Milliseconds. */
const REMEMBER_MS = 60_000;
const MAX_REMEMBERED = 1_000;

/** Returns so large that few of them may be in memory at once. */
export interface LargeReads {
  /** Whether the return was found large a short while ago. */
  isKnown(shopId: bigint, id: bigint): boolean;
  remember(shopId: bigint, id: bigint): void;
  /**
   * Waits until one more may be read. The permit lasts until the call has ended, its answer sent.
   *
   * @throws ConnectError OVERLOADED; the signal's reason when the caller leaves.
   */
  enter(call: AbortSignal): Promise<void>;
}

export function createLargeReads(): LargeReads {
  const permits = createPermits({ size: MOST_AT_ONCE, maxWaiting: MAX_WAITING, waitMs: WAIT_MS });
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
    async enter(call) {
      try {
        const release = await permits.take({ signal: call });
        if (call.aborted) release();
        else call.addEventListener('abort', release, { once: true });
      } catch (error) {
        throw error instanceof NoPermit ? overloaded() : error;
      }
    },
  };
}

/** RESOURCE_EXHAUSTED: the caller said that it takes less. */
export function answerTooLarge(): DomainError {
  const reason = ErrorReason.ANSWER_TOO_LARGE;
  return new DomainError(Code.ResourceExhausted, reason, 'the return is larger than max_bytes');
}
