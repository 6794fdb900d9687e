import { CommerceFailure } from '../provider.ts';
import { textOf, type UserErrors } from './shapes.ts';

/** These do not say that the request had no effect. */
const TRANSIENT_CODES: ReadonlySet<string> = new Set([
  'IDEMPOTENCY_CONCURRENT_REQUEST',
  'IDEMPOTENCY_KEY_PARAMETER_MISMATCH',
  'IDEMPOTENCY_PREVIOUS_ATTEMPT_FAILED',
  'INTERNAL_ERROR',
]);
/** Shopify gives some errors no code. These words in their text mean that they are transient. */
const TRANSIENT_TEXT = /idempoten|try again|in progress|temporar|internal error/i;

/** @throws CommerceFailure when there are errors: final when a repetition would fail again, and transient otherwise. */
export function rejectUserErrors(errors: UserErrors): void {
  const [error] = errors;
  if (!error) return;
  const isTransient = errors.some(
    ({ code, message }) => TRANSIENT_CODES.has(code ?? '') || TRANSIENT_TEXT.test(message),
  );
  const why = textOf(errors.map(({ message }) => message).join('; '));
  throw new CommerceFailure(isTransient ? 'passing' : 'final', `Shopify: ${why}`);
}

/** What an answer must have. @throws CommerceFailure transient, because the request may have had its effect. */
export function required<T>(value: T | null | undefined, what: string): T {
  if (value !== null && value !== undefined) return value;
  throw new CommerceFailure('passing', `Shopify: its answer has no ${what}`);
}
