/** A subscription becomes inactive after only failures for this long, and at least this many. */
export const FAILING_DAYS = 5;
export const FAILING_MIN = 10;

const DAY_MS = 24 * 3_600_000;

/** After these parts of that time the owner is warned, once each. Percent. */
const WARNINGS: readonly number[] = [90, 70, 50];

/** The failures of a subscription. Times by the retry clock. */
export interface Failing {
  /** Since the last success. */
  readonly failures: number;
  readonly failingSinceMs: number;
  /** Percentage of the last warning; 0 without one. */
  readonly warnedPercent: number;
}

export type FailureAction =
  | { readonly kind: 'deactivate'; readonly reason: string }
  | { readonly kind: 'warn'; readonly percent: number }
  | { readonly kind: 'none' };

/** A receiver that returns 410 Gone wants no more deliveries: its subscription becomes inactive immediately. */
export const ON_GONE: FailureAction = {
  kind: 'deactivate',
  reason: 'the endpoint answered 410 Gone',
};

/** The action after a failure at this time. Of several overdue warnings only the last is sent. */
export function actionOnFailing(failing: Failing, nowMs: number): FailureAction {
  if (failing.failures < FAILING_MIN) return { kind: 'none' };
  const share = (nowMs - failing.failingSinceMs) / (FAILING_DAYS * DAY_MS);
  if (share >= 1) return { kind: 'deactivate', reason: `only failures for ${FAILING_DAYS} days` };
  const percent = WARNINGS.find((at) => share * 100 >= at);
  return percent === undefined || percent <= failing.warnedPercent
    ? { kind: 'none' }
    : { kind: 'warn', percent };
}
