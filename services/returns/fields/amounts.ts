/** Amounts of a line item, each in two currencies and for the whole quantity. */
export const LINE_AMOUNTS = [
  'price',
  'discount',
  'tax',
  'refundItem',
  'refundTax',
  // Includes its tax.
  'refundShipping',
  // The tax part of refundShipping.
  'refundShippingTax',
] as const;

/** Amounts of an exchange item, each in two currencies. */
export const EXCHANGE_AMOUNTS = ['price', 'discount', 'tax'] as const;

/** Amounts of the whole return, each in two currencies. Shipping is derived from the line items. */
export const RETURN_AMOUNTS = ['creditShipping', 'returnCredit', 'handlingFee', 'refund'] as const;
