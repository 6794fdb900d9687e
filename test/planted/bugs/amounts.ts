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
    name: 'shipping-of-expired-returns-counted',
    promise: 'expired returns use up no shipping',
    file: 'services/returns/money/paid-shipping.ts',
    find: "('cancelled', 'expired')",
    replace: "('cancelled')",
    tests: ['services/returns/money/bounds.test.ts'],
  },
  {
    name: 'reopened-with-shipping-of-others',
    promise: 'an expired return opens only with shipping that is left',
    file: 'services/returns/returnable.ts',
    find: 'if (obstacle || isPaid) {',
    replace: 'if (obstacle) {',
    tests: ['services/returns/transitions.test.ts'],
  },
  {
    name: 'line-refunds-disagree',
    promise: 'line items that state refunds do not refund less than their return',
    file: 'services/returns/money/return-sums.ts',
    find: 'if (together >= refund) return;',
    replace: 'if (together > 0n) return;',
    tests: ['services/returns/money/bounds.test.ts'],
  },
  {
    name: 'upsell-booked-as-paid',
    promise:
      'an exchange order is made only if the provider confirms what the shopper must still pay',
    file: 'services/returns/processing/perform.ts',
    find: "if (asked !== undefined && !sameDecimal(result.due ?? '', asked)) return false;",
    replace: '',
    tests: ['services/returns/processing/upsell.test.ts'],
  },
  {
    name: 'prepaid-upsell-invoiced',
    promise: 'nothing is due of an upsell that the shopper has paid in advance',
    file: 'services/returns/processing/perform.ts',
    find: 'due: isPrepaid ? nothing : (totals?.upsell ?? nothing),',
    replace: 'due: totals?.upsell ?? nothing,',
    tests: ['services/returns/processing/upsell.test.ts'],
  },
  {
    name: 'unpaid-order-completed-as-paid',
    promise: 'an order that the shopper must pay in part has its payment pending at Shopify',
    file: 'services/returns/commerce/shopify/exchange-order.ts',
    find: 'const variables = { id, pending: isDue(request.funding) };',
    replace: 'const variables = { id, pending: false };',
    tests: ['services/returns/commerce/shopify/upsell.test.ts'],
  },
  {
    name: 'invoice-sent-twice',
    promise: 'Shopify sends one invoice for an upsell, whichever answer is lost',
    file: 'services/returns/commerce/shopify/exchange-order.ts',
    find: 'if (completed.invoiceSentAt !== null) return { ...effect, due: funding.due };',
    replace: '',
    tests: ['services/returns/commerce/shopify/upsell.test.ts'],
  },
];
