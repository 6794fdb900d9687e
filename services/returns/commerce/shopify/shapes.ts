import { z } from 'zod';
import { printable } from '../../../platform/text.ts';

export const money = z.object({
  amount: z.string().regex(/^\d{1,15}(\.\d{1,8})?$/),
  currencyCode: z.string().regex(/^[A-Z]{3}$/),
});
export type Money = z.infer<typeof money>;

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
export type UserErrors = z.infer<typeof userErrors>;

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
