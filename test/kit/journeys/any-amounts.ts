import { randomInt, randomUUID } from 'node:crypto';
import fc from 'fast-check';
import { Outcome } from '../../../proto/gen/rms/returns/v1/return_pb.ts';

/** Currencies in which a shopper of the first shop may pay, with their number of decimals. */
const DECIMALS = { GBP: 2, JPY: 0, KWD: 3 } as const;

const upTo = (max: number) => fc.integer({ min: 0, max });

/** Amounts in minor units. Credit and fee are less than the price, so that a part is refunded. */
const sums = fc.record({
  price: fc.integer({ min: 2_000, max: 1_000_000_000 }),
  discount: upTo(1_000),
  tax: upTo(1_000_000),
  refundShipping: upTo(10_000),
  creditShipping: upTo(10_000),
  handlingFee: upTo(500),
  returnCredit: upTo(500),
});

/** Amounts of a return in a shop with pounds, in the shop's currency and in the shopper's currency. */
export const anyAmounts = fc.record({
  shop: sums,
  paid: sums,
  currency: fc.constantFrom('GBP', 'JPY', 'KWD'),
});
type AnyAmounts = typeof anyAmounts extends fc.Arbitrary<infer T> ? T : never;

/** A return of one line item. Its credit pays an exchange, and the rest is refunded. */
export function submissionOf({ shop, paid, currency }: AnyAmounts) {
  const presentment = currency === 'GBP' ? shop : paid;
  const amount = (name: keyof typeof shop) => ({
    shop: decimal(shop[name], DECIMALS.GBP),
    presentment: decimal(presentment[name], DECIMALS[currency]),
  });
  const newId = () => BigInt(randomInt(1, 2 ** 47));
  return {
    idempotencyKey: randomUUID(),
    order: { name: '#rule', providerOrderId: newId() },
    currency: 'GBP',
    presentmentCurrency: currency,
    outcome: Outcome.EXCHANGE_REFUND,
    exchanges: [{ title: 'Hat', price: amount('returnCredit') }],
    lines: [
      {
        providerLineItemId: newId(),
        quantity: 1,
        price: amount('price'),
        discount: amount('discount'),
        tax: amount('tax'),
        refundShipping: amount('refundShipping'),
      },
    ],
    amounts: {
      creditShipping: amount('creditShipping'),
      handlingFee: amount('handlingFee'),
      returnCredit: amount('returnCredit'),
    },
  };
}

function decimal(minorUnits: number, decimals: number): string {
  const digits = String(minorUnits).padStart(decimals + 1, '0');
  const at = digits.length - decimals;
  return decimals === 0 ? digits : `${digits.slice(0, at)}.${digits.slice(at)}`;
}

/** An amount in units of its last decimal, so that totals are exact. */
export function minor(text: unknown): bigint {
  if (typeof text !== 'string' || !/^-?\d+(\.\d+)?$/.test(text)) {
    throw new Error(`not an amount: ${JSON.stringify(text)}`);
  }
  return BigInt(text.replace('.', ''));
}

/** The exact total of some fields of an object. */
export function sum(object: Readonly<Record<string, unknown>>, ...names: string[]): bigint {
  return names.reduce((total, name) => total + minor(object[name]), 0n);
}
