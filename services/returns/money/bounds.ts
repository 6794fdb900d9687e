import { invalidField } from '../../platform/errors.ts';
import { isTooLarge } from './money.ts';
import { type LineSums, lineRefunds, type TotalName, type TotalSums } from './totals.ts';

/** The field whose parts add up to each derived sum. */
const FIELDS: Readonly<Record<TotalName, string>> = {
  total: 'lines',
  returnProductTotal: 'lines',
  returnDiscountTotal: 'lines',
  returnTaxTotal: 'lines',
  returnTotal: 'lines',
  refundShippingTotal: 'lines',
  refundShippingTaxTotal: 'lines',
  returnShippingTotal: 'lines',
  returnShippingTaxTotal: 'lines',
  creditShippingTotal: 'amounts.credit_shipping',
  returnCreditTotal: 'amounts.return_credit',
  handlingFee: 'amounts.handling_fee',
  exchangeProductTotal: 'exchanges',
  exchangeDiscountTotal: 'exchanges',
  exchangeTaxTotal: 'exchanges',
  exchangeTotal: 'exchanges',
  exchangeCreditTotal: 'amounts.return_credit',
  upsell: 'exchanges',
  giftCard: 'amounts.return_credit',
  refund: 'amounts.refund',
};

/**
 * Sums that each keep the bound may add up beyond it: what is derived is bounded as what is given.
 *
 * @throws DomainError INVALID_ARGUMENT for a derived sum above 10^12 units, naming the field that it
 *   is derived from.
 */
export function checkBounds(lines: readonly LineSums[], totals: TotalSums, currency: string): void {
  const refuse = (field: string) => invalidField(field, 'must not sum up to more than 10^12');
  if (lines.some((line) => isTooLarge(lineRefunds(line).refund, currency))) throw refuse('lines');
  for (const [name, field] of Object.entries(FIELDS)) {
    // The entries of FIELDS have its keys.
    if (isTooLarge(totals[name as TotalName], currency)) throw refuse(field);
  }
}
