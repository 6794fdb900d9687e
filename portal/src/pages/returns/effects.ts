import { type Return, UpsellPayment } from '../../../../proto/gen/rms/returns/v1/return_pb.ts';
import { InstantRefundState } from '../../../../proto/gen/rms/returns/v1/returns_pb.ts';
import type { Checked } from './check.ts';

/** Processes the return as it is shown. The service rejects it when the return was changed in the meantime. */
export function processRequest({ id, revision }: Return) {
  return { returnId: id, expectedRevision: revision };
}

/** What processing would do now, one plain sentence for each effect. */
export function effectsOf({ about, check }: Checked): string[] {
  const { totals, presentmentTotals, presentmentCurrency: currency } = about;
  const { paidPart } = check;
  const amounts = paidPart
    ? (paidPart.presentmentTotals ?? paidPart.totals)
    : (presentmentTotals ?? totals);
  const items = about.exchanges.length;
  const effects: string[] = [];
  if (items > 0 && about.exchangeOrders.length === 0) {
    const order = `An exchange order with ${items} ${items === 1 ? 'item' : 'items'} is placed.`;
    effects.push(order + onTop(about, amounts?.upsell));
  }
  if (isPositive(amounts?.giftCard) && !about.giftCardOrder) {
    effects.push(`A gift card of ${amounts?.giftCard} ${currency} is issued to the shopper.`);
  }
  if (isPositive(amounts?.refund) && about.refunds.length === 0) {
    effects.push(
      `${amounts?.refund} ${currency} is refunded to the shopper's original payment method${lessKept(check)}.`,
    );
  }
  return [...effects, 'The return is closed and archived. This cannot be undone.'];
}

/** What the shopper pays for the exchange above the credit, and how; empty when nothing. */
function onTop(about: Return, upsell: string | undefined): string {
  if (!isPositive(upsell)) return '';
  const amount = `${upsell} ${about.presentmentCurrency}`;
  return about.upsellPayment === UpsellPayment.PREPAID
    ? ` The shopper has already paid ${amount} of it.`
    : ` The shopper gets an invoice of ${amount} for it, which is not paid yet.`;
}

/** The instant refunds that the shopper keeps, which processing deducts. */
function lessKept({ instantRefunds }: Checked['check']): string {
  const kept = instantRefunds.filter(
    ({ state }) =>
      state === InstantRefundState.RETURNED || state === InstantRefundState.CHARGE_FAILED,
  );
  if (kept.length === 0) return '';
  const amounts = kept.map(({ money }) => `${money?.value} ${money?.currency}`);
  return `, less ${amounts.join(' and ')} that was paid before the goods arrived`;
}

/** Whether a decimal text is above zero. */
function isPositive(amount: string | undefined): boolean {
  return amount !== undefined && /[1-9]/.test(amount) && !amount.startsWith('-');
}
