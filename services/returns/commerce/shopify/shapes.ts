import { z } from 'zod';
import { CommerceFailure } from '../provider.ts';

export const money = z.object({
  amount: z.string().regex(/^\d{1,15}(\.\d{1,8})?$/),
  currencyCode: z.string().regex(/^[A-Z]{3}$/),
});
export type Money = z.infer<typeof money>;

/** An amount in the currency that the shopper paid in. */
export const presentment = z.object({ presentmentMoney: money });

/** An amount in both currencies of an order. */
export const both = z.object({ presentmentMoney: money, shopMoney: money });

/** The time that Shopify sent; undefined when it is not a time. */
export function timeOf(text: string | null): Date | undefined {
  const time = new Date(text ?? Number.NaN);
  return Number.isNaN(time.getTime()) ? undefined : time;
}

/** What an answer must have. @throws CommerceFailure transient, because the request may have had its effect. */
export function required<T>(value: T | null | undefined, what: string): T {
  if (value !== null && value !== undefined) return value;
  throw new CommerceFailure('passing', `Shopify: its answer has no ${what}`);
}
