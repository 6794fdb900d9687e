import type { Bug } from '../bug.ts';

/** Bugs in the amounts of returns: limits of refunds, and what the shopper still has to pay. */
export const amountBugs: readonly Bug[] = [
  {
    name: 'tax-refunded-without-tax',
    promise: 'a line item refunds at most its tax',
    file: 'services/returns/money/totals.ts',
    find: 'if (refundTax > tax) {',
    replace: 'if (refundTax > goods + tax) {',
    tests: ['services/returns/money/bounds.test.ts'],
  },
  {
    name: 'shipping-refunded-per-return',
    promise: 'the returns of an order together refund at most the shipping that the order paid',
    file: 'services/returns/money/paid-shipping.ts',
    find: 'minorOf(paid, code) - minorOf(elsewhere, code)',
    replace: 'minorOf(paid, code)',
    tests: ['services/returns/money/bounds.test.ts'],
  },
  {
    name: 'line-refunds-disagree',
    promise: 'line items that state refunds do not refund less than their return',
    file: 'services/returns/money/return-sums.ts',
    find: 'if (together >= refund) return;',
    replace: 'if (together > 0n) return;',
    tests: ['services/returns/money/bounds.test.ts'],
  },
];
