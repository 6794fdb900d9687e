/** A subscription becomes inactive after only failures for this long, and at least this many. */
const FAILING_DAYS = 5;
const FAILING_MIN = 10;

const DAY_MS = 24 * 3_600_000;

/** One warning, in the log and as a mail, after each of these parts of that time, from ten failures on. Percent. */
const WARNINGS: readonly number[] = [90, 70, 50];

/** The failures of a subscription. Times by the retry clock. */
export interface Failing {
  /** Number of failures since the last success. */
  readonly failures: number;
  readonly failingSinceMs: number;
  /** Percentage of the last warning; 0 without one. */
  readonly warnedPercent: number;
}

/** The rule that deactivates a subscription: a 410, or only failures for too long. */
export type DeactivationCause = 'gone' | 'failures';

export type FailureAction =
  | {
      readonly kind: 'deactivate';
      readonly cause: DeactivationCause;
      /** The stored text of the cause. */
      readonly reason: string;
    }
  | { readonly kind: 'warn'; readonly percent: number }
  | { readonly kind: 'none' };

/**
 * The action after 410 Gone: the receiver expects no more deliveries, so the subscription becomes inactive immediately.
 * An incomplete response, or one of a former address, is an ordinary failure (`count-failures.ts`).
 */
export const ON_GONE: FailureAction = {
  kind: 'deactivate',
  cause: 'gone',
  reason: 'the endpoint answered 410 Gone',
};

/** Returns when a subscription becomes inactive if all attempts fail until then, by the retry clock. Milliseconds. */
export function deactivatesAtMs(failingSinceMs: number): number {
  return failingSinceMs + FAILING_DAYS * DAY_MS;
}

/** Returns the action after a failure at this time. If several warnings are overdue, only the last one is sent. */
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
