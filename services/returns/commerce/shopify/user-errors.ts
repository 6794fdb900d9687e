import { z } from 'zod';
import { CommerceFailure } from '../provider.ts';
import { printable } from './client.ts';

/** `userErrors` of a mutation. Some types of errors have no code. */
export const userErrors = z.array(z.object({ message: z.string(), code: z.string().nullish() }));
export type UserErrors = z.infer<typeof userErrors>;

/** These do not say that the request had no effect. */
const TRANSIENT_CODES: ReadonlySet<string> = new Set([
  'IDEMPOTENCY_CONCURRENT_REQUEST',
  'IDEMPOTENCY_KEY_PARAMETER_MISMATCH',
  'IDEMPOTENCY_PREVIOUS_ATTEMPT_FAILED',
  'INTERNAL_ERROR',
]);
/** Errors without a code have only their text. */
const TRANSIENT_TEXT = /idempoten|try again|in progress|temporar|internal error/i;

/** @throws CommerceFailure when there are errors: final when a repetition would fail again, and transient otherwise. */
export function rejectUserErrors(errors: UserErrors): void {
  const [error] = errors;
  if (!error) return;
  const isTransient = errors.some(
    ({ code, message }) => TRANSIENT_CODES.has(code ?? '') || TRANSIENT_TEXT.test(message),
  );
  const why = printable(errors.map(({ message }) => message).join('; '));
  throw new CommerceFailure(isTransient ? 'passing' : 'final', `Shopify: ${why}`);
}
