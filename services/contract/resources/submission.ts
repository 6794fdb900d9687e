import { z } from 'zod';
import {
  EMAIL_MAX,
  LABEL_URL_MAX,
  SHOPPER_COMMENT_MAX,
  SHORT_TEXT_MAX,
  SUBMITTED_LINES_MAX,
} from '../limits.ts';
import {
  RETURN_METHODS,
  RETURN_OUTCOMES,
  RETURN_TYPES,
  SUBMITTED_OUTCOMES,
} from '../vocabulary.ts';
import { addressBody } from './destination.ts';
import { UPSELL_PAYMENTS } from './effect.ts';
import { boolean, choice, decimal, id, ownBound, requiredText, text, typed } from './fields.ts';

/** The submission of a return: an addition to the interface. */

const optionalText = (description: string, max: number = SHORT_TEXT_MAX) =>
  text({ max, own: true }).nullish().meta({ description });
const units = () =>
  z
    .int({ error: typed('a whole number from 1 to 1000000') })
    .min(1, { error: 'must be a whole number from 1 to 1000000' })
    .max(1_000_000, { error: 'must be a whole number from 1 to 1000000' });
/** A line of an order, by its id or SKU. */
const selected = {
  provider_line_item_id: id()
    .nullish()
    .meta({ description: 'Identifier of the order line at the commerce platform' }),
  sku: optionalText('Stock keeping unit, instead of the id, if one order line has it'),
};
const SELECTS = 'or sku is required';

const item = z
  .object(
    {
      ...selected,
      quantity: units().meta({ description: 'Units that come back' }),
      reason: optionalText("The shopper's reason: a code of the policy, if it has reasons"),
      comment: optionalText("The shopper's comment, for the timeline", SHOPPER_COMMENT_MAX),
      outcome: choice(SUBMITTED_OUTCOMES)
        .nullish()
        .meta({ description: 'What the shopper gets for this line; as the return when absent' }),
      exchange_variant: optionalText(
        'With the outcome `exchange`: id, SKU or title of the variant that the shopper gets, at its own price. Absent: the same one',
      ),
    },
    { error: typed('an object') },
  )
  .superRefine(requireSelected)
  .meta({ id: 'SubmittedItem' });

const amount = (description: string) =>
  z
    .object(
      {
        shop: decimal().meta({ description: "In the shop's currency" }),
        presentment: decimal().nullish().meta({
          description: 'In the presentment currency; may be absent when both are the same',
        }),
      },
      { error: typed('an object') },
    )
    .nullish()
    .meta({ description });

const statedLine = z
  .object(
    {
      provider_line_item_id: id().meta({ description: 'Your identifier of the order line' }),
      product_id: id().nullish().meta({ description: 'Your identifier of the product' }),
      variant_id: id().nullish().meta({ description: 'Your identifier of the variant' }),
      sku: optionalText('Stock keeping unit'),
      title: optionalText('Title of the product'),
      variant_title: optionalText('Title of the variant'),
      image: optionalText('Link to an image', LABEL_URL_MAX),
      barcode: optionalText('Barcode'),
      quantity: units().meta({ description: 'Units that were ordered; the amounts are for them' }),
      price: amount('Gross price, required').unwrap().unwrap().meta({
        description: 'Gross price of the ordered units',
      }),
      discount: amount('Discount of the ordered units'),
      tax: amount('Tax of the ordered units'),
      refund_item: amount('Part of the refund for the goods; price - discount when absent'),
      refund_tax: amount('Part of the refund for the tax; all when absent'),
      refund_shipping: amount('Part of the refund for shipping, its tax included'),
      refund_shipping_tax: amount('The tax in `refund_shipping`'),
    },
    { error: typed('an object') },
  )
  .meta({ id: 'StatedLine' });

const list = <S extends z.ZodType>(schema: S) =>
  z
    .array(schema, { error: typed('a list') })
    .min(1, { error: 'must have at least 1 entry' })
    .max(SUBMITTED_LINES_MAX, { error: `must have at most ${SUBMITTED_LINES_MAX} entries` });

const currency = () => requiredText({ max: 3, own: true });

const statedOrder = z
  .object(
    {
      name: requiredText({ max: SHORT_TEXT_MAX, own: true }).meta({ description: 'Its name' }),
      provider_order_id: id().meta({ description: 'Your identifier of the order' }),
      currency: currency().meta({ description: "The shop's currency, an ISO 4217 code" }),
      presentment_currency: currency()
        .nullish()
        .meta({ description: "The currency that the shopper paid in; the shop's when absent" }),
      customer: z
        .object(
          {
            email: optionalText('E-mail address', EMAIL_MAX),
            first_name: optionalText('First name'),
            last_name: optionalText('Last name'),
            address: addressBody.nullish().meta({ description: 'Shipping address' }),
          },
          { error: typed('an object') },
        )
        .nullish()
        .meta({ description: 'The shopper' }),
      lines: list(statedLine)
        .meta(ownBound)
        .meta({ description: 'The lines of the order that come back' }),
    },
    { error: typed('an object') },
  )
  .meta({ id: 'StatedOrder' });

const ORDER_FIELDS = ['order_name', 'provider_order_id', 'order'] as const;

export const submissionBody = z
  .object({
    order_name: optionalText("The order's name at the commerce platform"),
    provider_order_id: id()
      .nullish()
      .meta({ description: "The order's id at the commerce platform, instead of its name" }),
    order: statedOrder.nullish().meta({
      description:
        'The order with its amounts, instead of its name, only for a shop whose commerce platform cannot look up orders',
    }),
    email: optionalText('If present, the order must have this e-mail address', EMAIL_MAX),
    items: list(item).meta(ownBound).nullish().meta({
      description: 'What comes back. Required, except with `order`: then all of its lines',
    }),
    outcome: choice(RETURN_OUTCOMES).nullish().meta({
      description: 'What the shopper gets; the first that the policy offers when absent',
    }),
    return_method: choice(RETURN_METHODS)
      .nullish()
      .meta({ description: '`mail`, if the policy offers it, when absent' }),
    destination_id: id().nullish().meta({ description: 'Where the goods go' }),
    type: choice(RETURN_TYPES).nullish().meta({ description: '`standard` when absent' }),
    package_reference: optionalText('Your own reference of the parcel'),
    upsell_payment: choice(UPSELL_PAYMENTS).nullish().meta({
      description:
        'How the shopper pays what an exchange costs above the credit; `invoice` when absent',
    }),
    upsell_payment_reference: optionalText('The payment of a prepaid upsell'),
    override_policy: boolean().nullish().meta({
      description:
        'True: the policy refuses nothing. Needs the scope `returns`; the timeline and the audit log have it',
    }),
  })
  .superRefine((value, context) => {
    const [first, second] = ORDER_FIELDS.filter((name) => isPresent(value[name]));
    const issue = (path: string, message: string) =>
      context.addIssue({ code: 'custom', path: [path], message });
    if (first === undefined) issue('order_name', 'or provider_order_id is required');
    if (second !== undefined) issue(second, `must not be given together with ${first}`);
    if (first !== 'order' && !value.items) issue('items', 'is required');
    if (first === 'order' && isPresent(value.email)) {
      issue('email', 'must not be given together with order');
    }
  })
  .meta({ id: 'ReturnBody' });
export type SubmissionBody = z.infer<typeof submissionBody>;

/** Whether a field has a value. An empty text is none. */
function isPresent(value: unknown): boolean {
  return value !== undefined && value !== null && value !== '';
}

function requireSelected(
  line: { readonly provider_line_item_id?: unknown; readonly sku?: unknown },
  context: z.core.$RefinementCtx,
): void {
  if (isPresent(line.provider_line_item_id) || isPresent(line.sku)) return;
  context.addIssue({ code: 'custom', path: ['provider_line_item_id'], message: SELECTS });
}
