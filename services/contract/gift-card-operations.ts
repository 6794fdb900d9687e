import { NOT_FOUND } from './errors.ts';
import { body, giftCardRules, type Operation } from './operation.ts';
import * as shapes from './resources/errors.ts';
import { giftCard, giftCardBody } from './resources/gift-card.ts';

/** The operation of gift-card providers, who respond to `giftcard.requested`. */
export const GIFT_CARD_OPERATIONS: readonly Operation[] = [
  {
    ...giftCardRules,
    id: 'recordGiftCard',
    method: 'POST',
    path: '/returns/{id}/gift-card',
    notFound: NOT_FOUND.return,
    body: body(giftCardBody),
    keyed: 'content',
    success: { status: 201, schema: giftCard },
    summary: 'Record gift card',
    description:
      'Records the gift card that was issued for `giftcard.requested`. Return details then show it as `gift_card_order_id`, `gift_card_order_name` and `gift_card_presentment`. A repeat with the same `Idempotency-Key` and content returns the same card; without the header, a repeat with the same content does. A return for which no card was requested, or whose card was recorded, is rejected (409). The event `return.updated` follows.',
    errors: {
      404: [shapes.errorsMessage],
      409: [shapes.errorsMessage],
      422: [shapes.messageError],
    },
  },
];
