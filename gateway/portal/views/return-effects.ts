import type { MessageInitShape } from '@bufbuild/protobuf';
import type { ReturnEffectSchema } from '../../../proto/gen/rms/portal/v1/return_pb.ts';
import {
  type Return,
  ReturnState,
  UpsellPayment,
} from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import type { ReturnCheck } from '../return-check.ts';

/** What processing made at the commerce provider. */
export function effectViews(ret: Return): MessageInitShape<typeof ReturnEffectSchema>[] {
  const { giftCardOrder, giftCardPresentment } = ret;
  return [
    ...ret.exchangeOrders.map(({ id, name }) => ({
      kind: 'exchange_order',
      reference: name || String(id),
    })),
    ...(giftCardOrder
      ? [
          {
            kind: 'gift_card',
            reference: giftCardOrder.name || String(giftCardOrder.id),
            ...(giftCardPresentment && { money: giftCardPresentment }),
          },
        ]
      : []),
    ...ret.refunds.map(({ providerRefundId, money, providerCreatedAt }) => ({
      kind: 'refund',
      reference: providerRefundId,
      ...(money && { money }),
      ...(providerCreatedAt && { createdAt: providerCreatedAt }),
    })),
  ];
}

/** What processing would do now, in plain sentences; empty when the return cannot be processed. */
export function processingEffects(ret: Return, check: ReturnCheck): string[] {
  if (ret.state !== ReturnState.OPEN || ret.processing || check.processingRefused !== '') return [];
  const { totals, presentmentTotals, presentmentCurrency: currency } = ret;
  const amounts = presentmentTotals ?? totals;
  const items = ret.exchanges.length;
  return [
    ...(items > 0 && ret.exchangeOrders.length === 0
      ? [
          `An exchange order with ${items} ${items === 1 ? 'item' : 'items'} is placed.${onTop(ret, amounts?.upsell)}`,
        ]
      : []),
    ...(isPositive(amounts?.giftCard) && !ret.giftCardOrder
      ? [`A gift card of ${amounts?.giftCard} ${currency} is issued to the shopper.`]
      : []),
    ...(isPositive(amounts?.refund) && ret.refunds.length === 0
      ? [
          `${amounts?.refund} ${currency} is refunded to the shopper's original payment method${lessKept(check)}.`,
        ]
      : []),
    'The return is closed and archived. This cannot be undone.',
  ];
}

/** What the shopper pays for the exchange above the credit, and how; empty when nothing. */
function onTop(ret: Return, upsell: string | undefined): string {
  if (!isPositive(upsell)) return '';
  const amount = `${upsell} ${ret.presentmentCurrency}`;
  return ret.upsellPayment === UpsellPayment.PREPAID
    ? ` The shopper has already paid ${amount} of it.`
    : ` The shopper gets an invoice of ${amount} for it, which is not paid yet.`;
}

/** The instant refunds that the shopper keeps, which processing deducts. */
function lessKept({ instantRefunds }: ReturnCheck): string {
  const kept = instantRefunds.filter(({ state = '' }) => KEPT.has(state));
  if (kept.length === 0) return '';
  const amounts = kept.map(({ money }) => `${money?.value} ${money?.currency}`);
  return `, less ${amounts.join(' and ')} that was paid before the goods arrived`;
}

const KEPT: ReadonlySet<string> = new Set(['returned', 'charge_failed']);

/** Whether a decimal text is above zero. */
function isPositive(amount: string | undefined): boolean {
  return amount !== undefined && /[1-9]/.test(amount) && !amount.startsWith('-');
}
