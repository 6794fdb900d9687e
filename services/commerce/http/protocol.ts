import { z } from 'zod';
import { MAX_ID } from '../../platform/values/ids.ts';
import { printable } from '../../platform/values/text.ts';
import type { EffectKind } from '../provider.ts';

// The protocol between this service and a merchant's own endpoint. docs/commerce.md and its schemas are generated from
// this file.

/** The version of the protocol. It is sent with every request. */
export const PROTOCOL_VERSION = '2026-11-01';

/** For each kind of effect, the type of its request. */
export const TYPE_OF: Readonly<Record<EffectKind, EffectType>> = {
  exchange_order: 'exchange_order.create',
  gift_card: 'gift_card.create',
  refund: 'refund.create',
  restock: 'inventory.restock',
  order_cancel: 'order.cancel',
};

export type EffectType =
  | 'exchange_order.create'
  | 'gift_card.create'
  | 'refund.create'
  | 'inventory.restock'
  | 'order.cancel';
export type RequestType = EffectType | 'effect.find' | 'effect.list' | 'order.find';

export const publicId = z.int().min(1).max(Number(MAX_ID));
const amount = z
  .string()
  .max(40)
  .regex(/^\d+(\.\d+)?$/, 'must be a decimal number such as 12.50')
  .describe('Decimal number, with the decimals of the currency');
export const currency = z
  .string()
  .regex(/^[A-Z]{3}$/)
  .describe('ISO 4217 code');
export const key = z
  .string()
  .trim()
  .min(1)
  .max(200)
  .regex(/^[^\p{Cc}\p{Cs}]*$/u)
  .meta({
    description: 'Identifies the effect. Also in the header Idempotency-Key',
    // The same rule without Unicode classes, which many validators of JSON Schema do not support.
    pattern: '^[^\\u0000-\\u001f\\u007f-\\u009f]*$',
  });

const order = z
  .strictObject({
    id: publicId.describe('Your id of the order that the goods were bought with'),
    name: z.string().describe('Its name; empty when unknown'),
  })
  .describe('The order that the goods were bought with');

const about = {
  key,
  return_id: publicId.describe('The return'),
  order,
};
const asked = {
  ...about,
  amount: amount.describe('Total, above zero, in the currency that the shopper paid in'),
  currency,
};
const details = z
  .record(z.string(), z.union([z.string(), z.number(), z.boolean(), z.null()]))
  .describe('Additional details of the request to process the return');

const paid = (what: string) => amount.describe(`${what}, in the currency that the shopper paid in`);
const exchangeItem = z.strictObject({
  product_id: z.int().describe('Your id of the product; 0 when unknown'),
  variant_id: z.int().describe('Your id of the variant; 0 when unknown'),
  sku: z.string().describe('Stock keeping unit; empty when unknown'),
  title: z.string().describe('Title of the product, for people'),
  price: paid('Gross price, before discount and tax'),
  discount: paid('Discount'),
  tax: paid('Tax'),
});

const returnedLine = z.strictObject({
  line_item_id: z.int().describe('Your id of the order line'),
  sku: z.string().describe('Stock keeping unit; empty when unknown'),
  quantity: z.int().min(1).describe('Returned units'),
  refund: amount.describe('What this line contributes to the return before fees and credits'),
  shipping: amount.describe(
    'The shipping in `refund`, with its tax. It lowers no `left` of a line',
  ),
});

const exchangeOrder = z.strictObject({
  id: publicId.describe('Your id of the exchange order, as in your answer'),
  name: z.string().describe('Its name; empty when unknown'),
});

const restockLine = z.strictObject({
  line_item_id: z.int().describe('Your id of the order line'),
  variant_id: z.int().describe('Your id of the variant; 0 when unknown'),
  sku: z.string().describe('Stock keeping unit; empty when unknown'),
  quantity: z.int().min(1).describe('Units that go back to stock'),
  location_id: z.int().describe('Your id of the location that has the goods; 0 when unknown'),
});

const kind = z
  .enum(['exchange_order', 'gift_card', 'refund', 'restock', 'order_cancel'])
  .describe('The kind of effect');
export const time = z.iso.datetime({ offset: true });

/** The schema of `data` for each type of request. */
export const REQUEST_DATA = {
  'exchange_order.create': z.strictObject({
    ...asked,
    paid_by_return: paid('What of `amount` the returned goods pay'),
    due: paid('What the shopper must still pay of `amount`: ask the shopper for it, or reject'),
    payment_reference: z
      .string()
      .optional()
      .describe('The payment with which the shopper has paid the rest of `amount` in advance'),
    items: z.array(exchangeItem).describe('What the shopper gets instead'),
    details,
  }),
  'gift_card.create': z.strictObject({ ...asked, details }),
  'refund.create': z.strictObject({
    ...asked,
    lines: z.array(returnedLine).describe('The returned lines'),
  }),
  'inventory.restock': z.strictObject({
    ...about,
    lines: z.array(restockLine).min(1).describe('The goods that go back to stock'),
  }),
  'order.cancel': z.strictObject({
    ...about,
    exchange_order: exchangeOrder.describe('The order to cancel'),
    due: paid('What the shopper was asked to pay: refund it if it was paid').optional(),
  }),
  'effect.find': z.strictObject({
    ...about,
    kind,
  }),
  'effect.list': z.strictObject({
    from: time.describe('Effects made at or after this time'),
    to: time.describe('Effects made before this time'),
    cursor: z.string().max(200).describe('`next_cursor` of the page before; empty for the first'),
  }),
  'order.find': z.strictObject({
    name: z.string().optional().describe('The name of the order, such as #1001; or `id`'),
    id: publicId.optional().describe('Your id of the order; or `name`'),
  }),
} as const satisfies Record<RequestType, z.ZodType>;

export type RequestData<T extends RequestType> = z.input<(typeof REQUEST_DATA)[T]>;

/** A request body. */
export interface ProtocolRequest<T extends RequestType = RequestType> {
  readonly type: T;
  readonly version: string;
  /** Time in the form of RFC 3339. */
  readonly sent_at: string;
  readonly shop_id: number;
  /** Whether the shop is a sandbox, so that no money may move. */
  readonly sandbox: boolean;
  readonly data: RequestData<T>;
}

/** An id of an effect, in its normal form: platforms write one id with spaces or in another Unicode form. */
const effectText = z.string().normalize('NFC').trim().min(1).max(191);
/** Ids of refunds in answers and events are compared, so both have the same form. */
export const effectId = z.union([effectText, publicId]).transform((id) => printable(String(id)));

const effect = z.object({
  id: effectId.describe(
    'Your id of the effect. For an exchange order and a gift card a whole number',
  ),
  name: z.string().max(191).optional().describe('Name of an order for people, such as #1001-E1'),
  gateway: z.string().max(191).optional().describe('Payment gateway of a refund'),
  amount: amount
    .optional()
    .describe(
      'The amount of the effect: the same as in the request. A restock and a cancellation have none',
    ),
  currency: currency.optional().describe('ISO 4217 code. A restock and a cancellation have none'),
  due: amount
    .optional()
    .describe('What you asked the shopper to pay for an exchange order: `due` of the request'),
  created_at: z.iso.datetime({ offset: true }).optional().describe('When it was made'),
});

/** The schema of an answer to a request for an effect. */
export const createdAnswer = z.object({ effect });
/** The schema of an answer to `effect.find`. */
export const foundAnswer = z.object({
  effect: effect.nullable().describe('null: no request with this key has had an effect'),
});
/** The schema of an answer to `effect.list`. */
export const listAnswer = z.object({
  effects: z
    .array(effect.extend({ key, kind, created_at: time.describe('When it was made') }))
    .max(500)
    .describe('Oldest first, at most 500'),
  next_cursor: z.string().max(200).nullable().describe('null on the last page'),
});
const both = z.object({
  shop: amount.describe("In the shop's currency"),
  presentment: amount.describe('In the currency that the shopper paid in'),
});
const unitCount = z.int().min(0).max(1_000_000);
const paidLine = z.object({
  total: both.describe('What the shopper paid for all ordered units, after discounts, with tax'),
  gross: both.optional().describe('Before discounts'),
  discount: both.optional().describe("All discounts, also the line's part of an order's discount"),
  tax: both
    .optional()
    .describe(
      'Tax in `total`. `total` is gross - discount + tax; gross - discount if prices include tax',
    ),
});
const exchangeVariant = z.object({
  variant_id: publicId.describe('Your id of the variant'),
  product_id: publicId.nullish().describe('Your id of its product. Absent: that of the line'),
  sku: z.string().max(191).optional().describe('Stock keeping unit'),
  title: z.string().max(191).describe('Title of the variant, for people'),
  price: amount.describe("What one unit costs now, with tax, in the shop's currency"),
  tax: amount.optional().describe('Tax in `price`. Absent: none'),
});
const orderLine = z
  .object({
    line_item_id: publicId.describe('Your id of the order line'),
    title: z.string().max(191).describe('Title of the product, for people'),
    sku: z.string().max(191).optional().describe('Stock keeping unit'),
    variant_title: z.string().max(191).nullish().describe('Title of the variant, for people'),
    image: z
      .url({ protocol: /^https?$/ })
      .max(2_048)
      .nullish()
      .describe('Link to an image'),
    tags: z
      .array(z.string().max(255))
      .max(250)
      .nullish()
      .describe('Tags of the product, at most 250. Absent: unknown'),
    product_id: publicId.nullish().describe('Your id of the product'),
    variant_id: publicId.nullish().describe('Your id of the variant'),
    kind: z
      .enum(['product', 'gift_card', 'tip', 'service'])
      .optional()
      .describe('Only products can be returned. Absent: product'),
    quantity: unitCount.describe('Ordered units, also those that were refunded later'),
    shipped: unitCount.optional().describe('Units that were shipped. Absent: all'),
    returnable: unitCount.describe(
      'Units that can still be returned. Do not subtract units in open returns',
    ),
    paid: paidLine.optional().describe('What the shopper paid for the line'),
    left: z
      .object({
        units: unitCount.describe('Ordered units that were not refunded'),
        total: both.describe('What of `paid.total` was not refunded'),
      })
      .optional()
      .describe('What is left after refunds. Absent: refunded units had their share of `paid`'),
    variants: z
      .array(exchangeVariant)
      .max(100)
      .nullish()
      .describe('What the goods may be exchanged for, besides their own variant, at most 100'),
    unit_price: both
      .optional()
      .describe('What the shopper paid for one unit, after all discounts. Required without `paid`'),
  })
  .refine(({ unit_price, paid }) => unit_price ?? paid, 'unit_price or paid is required');
const refundOfOrder = z.object({
  id: effectId.describe('Your id of the refund'),
  shipping: both.optional().describe('What of it was for shipping; `shipping.left` is without it'),
  other: both.optional().describe('What of it was for no line and no shipping, as for goodwill'),
});
/** The schema of an answer to `order.find`. */
export const orderAnswer = z.object({
  order: z
    .object({
      id: publicId.describe('Your id of the order'),
      name: z.string().min(1).max(191).describe('Its name. As it was asked for, if it was'),
      currency: currency.describe("The shop's currency"),
      presentment_currency: currency.describe('The currency that the shopper paid in'),
      email: z.string().max(320).nullish().describe('E-mail address of the shopper'),
      postal_code: z.string().max(50).nullish().describe('Postal code of the shipping address'),
      shipping_country: z
        .string()
        .regex(/^[A-Za-z]{2}$/)
        .nullish()
        .describe('Country of the shipping address, ISO 3166 alpha-2'),
      ordered_at: time.nullish().describe('When it was ordered'),
      fulfilled_at: time.nullish().describe('When the last of its goods were shipped'),
      delivered_at: time.nullish().describe('When the last of its goods arrived'),
      cancelled_at: time.nullish().describe('When it was cancelled; null when it was not'),
      shipping: z
        .object({
          paid: both.describe('What the shopper paid for shipping, with tax'),
          left: both
            .optional()
            .describe(
              'What of it was not refunded, apart from refunds at our request. Absent: all of it',
            ),
        })
        .optional()
        .describe('Absent: unknown'),
      refunds: z
        .array(refundOfOrder)
        .max(250)
        .optional()
        .describe('Refunds that none of our requests made. Absent: as `refund.created` says'),
      lines: z.array(orderLine).max(250).describe('All lines of the order, at most 250'),
    })
    .nullable()
    .describe('null: there is no such order'),
});
/** The schema of an answer that rejects a request. */
export const refusalAnswer = z.object({
  error: z
    .object({
      code: z.string().max(100).optional().describe('For programs'),
      message: z.string().max(2_000).describe('For people: why, and what to do'),
    })
    .describe('Why it was not done'),
});

export type ProtocolEffect = z.infer<typeof effect>;
