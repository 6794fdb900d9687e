import type { QueueRef } from '../queue/queue-ref.ts';

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

/** A subscription becomes inactive after only failures for this long, and at least this many. */
const FAILING_DAYS = 5;
const FAILING_MIN = 10;

const DAY_MS = 24 * 3_600_000;

/**
 * Parts of that time after which the owner gets a warning, in the log and as a mail. There is none before ten failures.
 * Percent.
 */
const WARNINGS: readonly number[] = [90, 70, 50];

/** The failures of a subscription. All times are by the retry clock. */
interface Failing {
  /** Number of failures since the last success. */
  readonly failures: number;
  readonly failingSinceMs: number;
  /** Percentage of the last warning; 0 when there was none. */
  readonly warnedPercent: number;
}

/** Why a subscription is deactivated: a 410, or only failures for too long. */
type DeactivationCause = 'gone' | 'failures';

export type FailureAction =
  | {
      readonly kind: 'deactivate';
      readonly cause: DeactivationCause;
      /** The text about the cause that is stored. */
      readonly reason: string;
    }
  | { readonly kind: 'warn'; readonly percent: number }
  | { readonly kind: 'none' };

/**
 * What follows from 410 Gone. The receiver wants no more deliveries, so the subscription becomes inactive at once. An
 * incomplete response, and a 410 of a former address, are ordinary failures (`count-failures.ts`).
 */
export const ON_GONE: FailureAction = {
  kind: 'deactivate',
  cause: 'gone',
  reason: 'the endpoint answered 410 Gone',
};

/** Returns when a subscription becomes inactive if every attempt until then fails, by the retry clock. Milliseconds. */
export function deactivatesAtMs(failingSinceMs: number): number {
  return failingSinceMs + FAILING_DAYS * DAY_MS;
}

/** Returns what follows from a failure at this time. When several warnings are overdue, only the last one is sent. */
export function actionOnFailing(failing: Failing, nowMs: number): FailureAction {
  if (failing.failures < FAILING_MIN) return { kind: 'none' };
  const share = (nowMs - failing.failingSinceMs) / (FAILING_DAYS * DAY_MS);
  if (share >= 1) {
    const reason = `only failures for ${FAILING_DAYS} days`;
    return { kind: 'deactivate', cause: 'failures', reason };
  }
  const percent = WARNINGS.find((at) => share * 100 >= at);
  return percent === undefined || percent <= failing.warnedPercent
    ? { kind: 'none' }
    : { kind: 'warn', percent };
}
