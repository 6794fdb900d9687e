import { setTimeout as sleep } from 'node:timers/promises';
import { CommerceFailure } from '../provider.ts';

/** The rate limit in an answer (`extensions.cost.throttleStatus`): points, and points per second. */
export interface ThrottleStatus {
  readonly maximumAvailable: number;
  readonly currentlyAvailable: number;
  readonly restoreRate: number;
}

/** The points that a shop has left by its newest answer, and the points that each operation costs. */
export interface Bucket {
  /** Waits until the points are enough for the operation. @throws CommerceFailure when this takes too long. */
  afford(operation: string, signal: AbortSignal): Promise<void>;
  /** Records the cost in an answer. */
  record(operation: string, cost: number, status: ThrottleStatus): void;
  /** Returns the time until the points are enough for the operation. Milliseconds. */
  pauseFor(operation: string): number;
}

/** Maximum wait. A longer wait would use up the deadline of the call. Milliseconds. */
const MAX_WAIT_MS = 2_000;
/** Assumed cost of an operation that was not sent yet. Points. */
const UNKNOWN_COST = 50;

/** Creates the points of a shop. Until the first answer, they count as complete. */
export function createBucket(): Bucket {
  const costs = new Map<string, number>();
  let newest: { readonly status: ThrottleStatus; readonly at: number } | undefined;

  const pauseFor = (operation: string): number => {
    if (!newest) return 0;
    const { maximumAvailable, currentlyAvailable, restoreRate } = newest.status;
    const restored = ((performance.now() - newest.at) / 1_000) * restoreRate;
    const available = Math.min(maximumAvailable, currentlyAvailable + restored);
    const cost = Math.min(maximumAvailable, costs.get(operation) ?? UNKNOWN_COST);
    return Math.ceil((Math.max(0, cost - available) / restoreRate) * 1_000);
  };

  return {
    pauseFor,
    async afford(operation, signal) {
      const pause = pauseFor(operation);
      if (pause > MAX_WAIT_MS) {
        const options = { retryAfterMs: pause, isUnsent: true };
        throw new CommerceFailure('passing', "the shop's rate limit is used up", options);
      }
      if (pause > 0) await sleep(pause, undefined, { signal });
    },
    record(operation, cost, status) {
      costs.set(operation, cost);
      newest = { status, at: performance.now() };
    },
  };
}
