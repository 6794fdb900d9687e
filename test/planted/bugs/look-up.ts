import type { Bug } from '../bug.ts';

/** Bugs in the amounts of returns that are submitted by the name of their order. */
export const lookUpBugs: readonly Bug[] = [
  {
    name: 'price-of-one-unit-times-quantity',
    promise: 'the refunds of an order add up to what was paid',
    file: 'services/returns/submit/look-up.ts',
    find: 'shareOf({ units, value: valueLeft[side] }, quantity)',
    replace: `Array.from({ length: quantity }, () => shareOf({ units, value: valueLeft[side] }, 1))
      .reduce((a, b) => ({ price: a.price + b.price, discount: a.discount + b.discount, tax: a.tax + b.tax }))`,
    tests: ['services/returns/submit/shares.test.ts'],
  },
  {
    name: 'share-of-what-other-returns-have',
    promise: 'the refunds of an order add up to what was paid, and never exceed it',
    file: 'services/returns/commerce/remaining.ts',
    find: 'minus(minus(paid, there), sumOf(here, { of, currencies, whole }))',
    replace: 'minus(paid, there)',
    tests: ['services/returns/submit/shares.test.ts'],
  },
  {
    name: 'share-computed-before-the-lock',
    promise: 'the refunds of an order add up to what was paid, also of returns at the same time',
    file: 'services/returns/submit/submit.ts',
    find: 'const now = whole ? checked : await checkedIn(tx);',
    replace: 'const now = checked;',
    tests: ['services/returns/submit/look-up.test.ts'],
  },
  {
    name: 'included-tax-paid-twice',
    promise: 'tax that is included in prices is paid once',
    file: 'services/returns/commerce/shopify/order.ts',
    find: '(taxesIncluded ? tax : 0n) +',
    replace: '',
    tests: ['services/returns/commerce/shopify/order.test.ts'],
  },
  {
    name: 'unshipped-units-returnable',
    promise: 'units that were not shipped cannot be returned',
    file: 'services/returns/commerce/shopify/order.ts',
    find: 'refundableQuantity - unfulfilledQuantity',
    replace: 'refundableQuantity',
    tests: ['services/returns/commerce/shopify/order.test.ts'],
  },
  {
    name: 'own-refunds-as-rounded-by-the-platform',
    promise: 'the refunds of an order at Shopify add up to what was paid',
    file: 'services/returns/commerce/shopify/order.ts',
    find: "    refunds: refunds.filter(({ key }) => key !== ''),\n",
    replace: '',
    tests: ['services/returns/commerce/shopify/order.test.ts'],
  },
  {
    name: 'contradicting-unit-price-accepted',
    promise: 'a price of one unit that contradicts the totals is an error',
    file: 'services/returns/commerce/http/order.ts',
    find: '>= Math.max(1, quantity)',
    replace: '> 1_000_000_000',
    tests: ['services/returns/commerce/http/order.test.ts'],
  },
];
