import { z } from 'zod';
import { SHORT_TEXT_MAX } from '../limits.ts';
import { id as bodyId, dateTime, decimal, requiredText, text } from './fields.ts';
import { amount, id, means, nullableText, time } from './response-fields.ts';

/** Gift cards that a merchant's own provider issued: an addition to the interface. */

export const giftCardBody = z
  .object({
    order_id: bodyId().meta({
      description:
        'Your id of the card, or of the order that issued it. Never the code of the card',
    }),
    order_name: text({ max: SHORT_TEXT_MAX, own: true })
      .nullish()
      .meta({ description: 'Name of the order for people; none when absent' }),
    amount: decimal().meta({
      description: 'The value of the card: the `amount` of `giftcard.requested`',
    }),
    currency: requiredText({ max: 3, own: true }).meta({
      description: 'The `currency` of `giftcard.requested`, an ISO 4217 code',
    }),
    issued_at: dateTime()
      .nullish()
      .meta({ description: 'When the card was issued, not in the future; now when absent' }),
  })
  .meta({ id: 'GiftCardBody' });
export type GiftCardBody = z.infer<typeof giftCardBody>;

export const giftCard = z
  .object({
    id: means(id(), 'The `id` of `giftcard.requested`'),
    return_id: means(id(), 'The return that the card is for'),
    order_id: means(id(), 'Your id of the card, or of the order that issued it'),
    order_name: means(nullableText(), 'Name of that order; null without one'),
    amount: means(amount(), 'Value of the card, in `currency`'),
    currency: means(z.string(), 'Currency of the card, an ISO 4217 code'),
    issued_at: means(time(), 'When the card was issued'),
  })
  .meta({ id: 'GiftCard' });
export type GiftCardObject = z.infer<typeof giftCard>;
