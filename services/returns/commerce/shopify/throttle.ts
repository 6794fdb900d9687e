import { setTimeout as sleep } from 'node:timers/promises';
import { CommerceFailure } from '../provider.ts';

/** `extensions.cost.throttleStatus` of an answer: points, and points per second. */
export interface ThrottleStatus {
  readonly maximumAvailable: number;
  readonly currentlyAvailable: number;
  readonly restoreRate: number;
}

/** The points of one shop, as its newest answer said, and what each operation requests. */
export interface Bucket {
  /** Waits until the operation can be paid. @throws CommerceFailure when that takes too long. */
  afford(operation: string, signal: AbortSignal): Promise<void>;
  /** Records what an answer said about the cost. */
  record(operation: string, cost: number, status: ThrottleStatus): void;
  /** The time until the operation can be paid. Milliseconds. */
  pauseFor(operation: string): number;
}

/** A longer wait would use up the deadline of the call. Milliseconds. */
const MAX_WAIT_MS = 2_000;
/** An operation that was not sent yet is assumed to cost as much. Points. */
const UNKNOWN_COST = 50;

/** Without an answer, the bucket counts as full. */
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
