import type { GiftCard } from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import type { GiftCardObject } from '../resources/gift-card.ts';
import { iso, textOrNull } from './values.ts';

/** A gift card as partners see it. Throws when it has no amount. */
export function giftCardView(card: GiftCard): GiftCardObject {
  if (!card.money) throw new Error(`gift card ${card.id} has no amount`);
  return {
    id: Number(card.id),
    return_id: Number(card.returnId),
    order_id: Number(card.providerOrderId),
    order_name: textOrNull(card.name),
    amount: card.money.value,
    currency: card.money.currency,
    issued_at: iso(card.issuedAt),
  };
}
