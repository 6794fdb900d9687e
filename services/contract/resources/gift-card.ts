import { z } from 'zod';
import { SHORT_TEXT_MAX } from '../limits.ts';
import { dateTime, decimal, id, requiredText, text } from './fields.ts';
import { time } from './response-fields.ts';

/** Gift cards that a merchant's own provider issued: an addition to the interface. */

export const giftCardBody = z
  .object({
    order_id: id().meta({
      description:
        'Your id of the card, or of the order that issued it. Never the code of the card',
    }),
    order_name: text({ max: SHORT_TEXT_MAX, own: true })
      .nullish()
      .meta({ description: 'Its name for people' }),
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
    id: z.int().min(1).meta({ description: 'The `id` of `giftcard.requested`' }),
    return_id: z.int().min(1),
    order_id: z.int().min(1),
    order_name: z.string().nullable(),
    amount: z.string().meta({ description: 'Decimal number' }),
    currency: z.string().meta({ description: 'ISO 4217 code' }),
    issued_at: time(),
  })
  .meta({ id: 'GiftCard' });
export type GiftCardObject = z.infer<typeof giftCard>;
