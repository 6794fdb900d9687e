import type { QueueRef } from '../queue/queue-ref.ts';
import type { DeactivationCause } from './deactivate.ts';

/** The notice that a subscription was deactivated, or the warning that it soon will be. */
export interface Notice extends QueueRef {
  readonly kind: 'deactivated' | 'warned';
  /** Reason of the deactivation; empty for a warning. */
  readonly reason: string;
  /** Why the subscription was deactivated, or will be. */
  readonly cause: DeactivationCause;
  /** How much of the time until the deactivation has passed. Percent. */
  readonly percent: number;
  readonly failures: number;
  /** Time of the first failure, by the retry clock; null when a later attempt succeeded. Milliseconds. */
  readonly failingSinceMs: number | null;
  /** Error of the last failed attempt. */
  readonly lastError: string;
}
