/** Only failures for this long, and at least this many, switch a subscription off. */
export const FAILING_DAYS = 5;
export const FAILING_MIN = 10;

const DAY_MS = 24 * 3_600_000;

/** Shares of that time at which its owner is warned, once each. Percent. */
const WARNINGS: readonly number[] = [90, 70, 50];

/** What is known of a subscription's failures; times by the retry clock. */
export interface Failing {
  /** Since the last success. */
  readonly failures: number;
  readonly failingSinceMs: number;
  /** Of the last warning that was given; 0 for none. */
  readonly warnedPercent: number;
}

export type Verdict =
  | { readonly kind: 'disable' }
  | { readonly kind: 'warn'; readonly percent: number }
  | { readonly kind: 'none' };

/** What a failure at this time leads to. Of warnings that are overdue together the last is given. */
export function actionOnFailing(failing: Failing, nowMs: number): Verdict {
  if (failing.failures < FAILING_MIN) return { kind: 'none' };
  const share = (nowMs - failing.failingSinceMs) / (FAILING_DAYS * DAY_MS);
  if (share >= 1) return { kind: 'disable' };
  const percent = WARNINGS.find((at) => share * 100 >= at);
  return percent === undefined || percent <= failing.warnedPercent
    ? { kind: 'none' }
    : { kind: 'warn', percent };
}
