import { createHash } from 'node:crypto';
import { z } from 'zod';
import { decimalsOf } from '../../platform/values/currencies.ts';
import { MAX_ID } from '../../platform/values/ids.ts';
import { minorOf } from '../../platform/values/money.ts';
import { printable } from '../../platform/values/text.ts';
import { decimalsProblems } from '../http/order.ts';
import { CommerceFailure, type FailureKind } from '../provider.ts';

export const money = z.object({
  amount: z.string().regex(/^\d{1,15}(\.\d{1,8})?$/),
  currencyCode: z.string().regex(/^[A-Z]{3}$/),
});
type Money = z.infer<typeof money>;

/** An amount in the currency in which the shopper paid. */
export const presentment = z.object({ presentmentMoney: money });

/** An amount in both currencies of an order. */
export const both = z.object({ presentmentMoney: money, shopMoney: money });

/** As {@link both}, for an amount that is negative when the shop owes it to the shopper. Then it is zero. */
const owed = money.extend({
  amount: z
    .string()
    .transform((amount) => (amount.startsWith('-') ? '0' : amount))
    .pipe(money.shape.amount),
});
export const bothOwed = z.object({ presentmentMoney: owed, shopMoney: owed });

/** The `userErrors` of a mutation. Some types of errors have no code. */
export const userErrors = z.array(z.object({ message: z.string(), code: z.string().nullish() }));
type UserErrors = z.infer<typeof userErrors>;

/** Parses a time of Shopify. Undefined when the text is no time. */
export function timeOf(text: string | null): Date | undefined {
  const time = new Date(text ?? Number.NaN);
  return Number.isNaN(time.getTime()) ? undefined : time;
}

/** Makes a text of Shopify safe to store and to show. It has at most 500 characters. */
export function textOf(text: string): string {
  return printable(text, 500);
}

/**
 * Matches the permanent domain of a store. Requests with the client secret are sent to it, so nothing else may match:
 * no port, no user, no other host.
 */
const SHOP_DOMAIN = /^[a-z0-9][a-z0-9-]{0,59}\.myshopify\.com$/;

export function isShopDomain(text: string): boolean {
  return SHOP_DOMAIN.test(text);
}

/** Returns the global id of Shopify for a number, such as `gid://shopify/Order/445`. */
export function gidOf(type: string, id: bigint): string {
  return `gid://shopify/${type}/${id}`;
}

/** Returns the number at the end of a global id, as a text. @throws CommerceFailure `passing`, when there is none. */
export function numberOf(gid: string): string {
  const [, number] = /\/([1-9]\d{0,15})$/.exec(gid) ?? [];
  if (number !== undefined && BigInt(number) <= MAX_ID) return number;
  throw new CommerceFailure('passing', 'Shopify: its answer has an invalid id');
}

/**
 * Returns the UUID (version 8) of an idempotency key. A key always has the same UUID, because a repeated request must
 * send the same UUID.
 */
export function uuidOf(key: string): string {
  const hex = createHash('sha256').update(key).digest('hex');
  const variant = ((Number.parseInt(hex.slice(16, 17), 16) & 0x3) | 0x8).toString(16);
  return [
    hex.slice(0, 8),
    hex.slice(8, 12),
    `8${hex.slice(13, 16)}`,
    `${variant}${hex.slice(17, 20)}`,
    hex.slice(20, 32),
  ].join('-');
}

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
