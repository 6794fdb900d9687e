import { z } from 'zod';
import { amount, means, nullableText, time } from './response-fields.ts';

/** An effect: what processing requested of the commerce provider for a return. It is an addition to the interface. */

export const EFFECT_KINDS = [
  'exchange_order',
  'gift_card',
  'refund',
  'restock',
  'order_cancel',
] as const;
export const UPSELL_PAYMENTS = ['invoice', 'prepaid'] as const;
export const EFFECT_STATES = ['planned', 'unknown', 'made'] as const;

const effect = z
  .object({
    effect: means(z.enum(EFFECT_KINDS), 'What was requested'),
    key: z.string().meta({ description: 'The idempotency key by which the provider knows it' }),
    state: z.enum(EFFECT_STATES).meta({
      description:
        '`planned`: not requested, or the provider rejected it. `unknown`: requested, and no answer is known; it may have been made. `made`: the provider has made it',
    }),
    amount: means(
      amount(),
      'Amount of the effect, in `currency`; zero for a restock and a cancellation',
    ),
    currency: z.string().meta({ description: 'ISO 4217 code: the currency the shopper paid in' }),
    asked: means(
      time(),
      'When the newest request was sent; null when none was, or it was rejected',
    ),
    answered: means(time(), 'When the result was recorded; null until then'),
    provider_id: nullableText().meta({ description: "The provider's id; null until it is made" }),
    name: nullableText().meta({
      description: 'The name of an order; null for the other kinds',
    }),
    problem: nullableText().meta({
      description: 'Why the newest request did not succeed, for people; null when it did',
    }),
    due: nullableText().meta({
      description:
        'What the shopper is asked to pay of the `amount` of an exchange order, as decimal text in `currency`; null for the other kinds',
    }),
    upsell_payment: z.enum(UPSELL_PAYMENTS).nullable().meta({
      description:
        'How the shopper pays for an exchange order what the returned goods do not. `invoice`: the commerce provider asks for `due`. `prepaid`: paid before, so nothing is due. Null when the goods pay all of it, and for the other kinds',
    }),
  })
  .meta({ id: 'ReturnEffect' });
export type EffectObject = z.infer<typeof effect>;

export const effectList = z
  .object({ effects: z.array(effect).meta({ description: 'In the order of the requests' }) })
  .meta({ id: 'EffectList' });
