import { decimalsOf } from '../../../platform/currencies.ts';
import { minorOf } from '../../../platform/money.ts';
import { decimalsProblems } from '../http/order.ts';
import { CommerceFailure, type FailureKind } from '../provider.ts';
import { type Money, textOf, type UserErrors } from './shapes.ts';

/** Codes of errors after which the request may still have had its effect. */
const TRANSIENT_CODES: ReadonlySet<string> = new Set([
  'IDEMPOTENCY_CONCURRENT_REQUEST',
  'IDEMPOTENCY_KEY_PARAMETER_MISMATCH',
  'IDEMPOTENCY_PREVIOUS_ATTEMPT_FAILED',
  'INTERNAL_ERROR',
]);
/** Some errors of Shopify have no code. These words in the text of an error mean that it is `passing`. */
const TRANSIENT_TEXT = /idempoten|try again|in progress|temporar|internal error/i;

/**
 * Rejects an answer that has errors. @throws CommerceFailure: `final` when a repeat would fail again, otherwise
 * `passing`.
 */
export function rejectUserErrors(errors: UserErrors): void {
  const [error] = errors;
  if (!error) return;
  const isPassing = errors.some(
    ({ code, message }) => TRANSIENT_CODES.has(code ?? '') || TRANSIENT_TEXT.test(message),
  );
  const why = textOf(errors.map(({ message }) => message).join('; '));
  throw new CommerceFailure(isPassing ? 'passing' : 'final', `Shopify: ${why}`);
}

/**
 * Returns a part that an answer must have. @throws CommerceFailure `passing`, because the request may have had its
 * effect.
 */
export function required<T>(value: T | null | undefined, what: string): T {
  if (value !== null && value !== undefined) return value;
  throw new CommerceFailure('passing', `Shopify: its answer has no ${what}`);
}

/**
 * Parses an amount in an answer. Returns minor units.
 *
 * @throws CommerceFailure for an unknown currency, and for more decimals than the currency has.
 */
export function minorIn({ amount, currencyCode }: Money, kind: FailureKind = 'passing'): bigint {
  const [problem] =
    decimalsOf(currencyCode) === undefined
      ? [`${currencyCode}, which is no currency of ISO 4217`]
      : decimalsProblems([amount], currencyCode);
  if (problem === undefined) return minorOf(amount, currencyCode);
  throw new CommerceFailure(kind, `Shopify: its answer has ${problem}`);
}
