import type { QueueRef } from '../queue/queue-ref.ts';
import type { DeactivationCause } from './deactivate.ts';

/** Tells that a subscription was deactivated, or that it soon will be. */
export interface Notice extends QueueRef {
  readonly kind: 'deactivated' | 'warned';
  /** Reason of the deactivation; empty for a warning. */
  readonly reason: string;
  /** The rule of a deactivation; of a warning the rule that will deactivate it. */
  readonly cause: DeactivationCause;
  /** The part of the time until the deactivation that has passed. Percent. */
  readonly percent: number;
  readonly failures: number;
  /** By the retry clock; null when a later attempt succeeded. Milliseconds. */
  readonly failingSinceMs: number | null;
  /** Error of the last failed attempt. */
  readonly lastError: string;
}
