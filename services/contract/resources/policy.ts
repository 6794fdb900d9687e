import { z } from 'zod';
import {
  AUTOMATIC_MOMENTS,
  REFUND_BASES,
  RETURN_METHODS,
  RETURN_OUTCOMES,
  WINDOW_STARTS,
  WITHDRAWAL_HANDLINGS,
} from '../vocabulary.ts';
import { means, nullableText, time } from './response-fields.ts';

/** The policy of a shop for returns. It is an addition to the interface. */

const window = z
  .object({
    days: means(z.int().nullable(), 'Days in which goods may come back; null: without end'),
    from: means(
      z.enum(WINDOW_STARTS),
      'From when the days count. If the commerce provider does not know this time, the next of `delivered`, `fulfilled`, `ordered` counts',
    ),
  })
  .meta({ id: 'ReturnWindow' });

const selection = {
  product_ids: means(z.array(z.int()), "The provider's ids of products"),
  skus: means(z.array(z.string()), 'SKUs. A `*` stands for any text'),
  tags: means(z.array(z.string()), 'Tags of products'),
};

const outcomes = (meaning: string) => means(z.array(z.enum(RETURN_OUTCOMES)), meaning);

const exception = z
  .object({
    ...selection,
    window: means(window.nullable(), 'Replaces `window`; null: the same'),
    outcomes: outcomes('Replaces `outcomes`; empty: the same'),
  })
  .meta({ id: 'PolicyException' });

const reason = z
  .object({
    code: means(z.string(), 'The `reason` of a line item'),
    parent: means(nullableText(), 'Code of its group; null without one'),
    label: means(z.record(z.string(), z.string()), 'Text by language, such as `en`'),
    asks_comment: means(z.boolean(), 'Whether the shopper must comment'),
    waives_fee: means(z.boolean(), 'Whether a return with it on each line item has no fee'),
  })
  .meta({ id: 'PolicyReason' });

const fee = z
  .object({
    return_method: means(z.enum(RETURN_METHODS).nullable(), 'Only for this method; null: any'),
    outcome: means(z.enum(RETURN_OUTCOMES).nullable(), 'Only for this outcome; null: any'),
    amount: means(
      nullableText(),
      "Decimal number as text, in the shop's currency; null for a percentage",
    ),
    percentage: means(
      nullableText(),
      'Decimal number as text: the percentage of the value of the goods; null for an amount',
    ),
  })
  .meta({ id: 'PolicyFee' });

const review = z
  .object({
    value_above: means(
      nullableText(),
      "The goods are worth more: decimal number as text, in the shop's currency; null: not a condition",
    ),
    reasons: means(z.array(z.string()), 'A line item has one of these reasons'),
    returns_above: means(
      z.int().nullable(),
      'The shopper has more returns in `returns_days`, the new one included; null: not a condition',
    ),
    returns_days: means(z.int().nullable(), 'Days for `returns_above`; null without it'),
    fraud_report: means(z.boolean(), 'The shopper has a fraud report'),
    missing: means(z.boolean(), 'A line item is disposed as `missing`, also later'),
  })
  .meta({ id: 'PolicyReview' });

const process = z
  .object({
    moment: means(
      z.enum(AUTOMATIC_MOMENTS),
      'When returns are processed without a person. Returns in review never are',
    ),
    up_to: means(
      nullableText(),
      "Only if refund and credit together are at most this, a decimal number as text in the shop's currency; null: any",
    ),
  })
  .meta({ id: 'PolicyProcess' });

export const policy = z
  .object({
    version: means(
      z.int().min(0),
      'Version of the policy that is in force. 0 for a shop without a policy, which allows everything',
    ),
    updated_at: means(time(), 'When this version was made; null for a shop without a policy'),
    window: means(window, 'How long goods may come back'),
    final_sale: means(
      z.object(selection).meta({ id: 'ItemSelection' }),
      'Goods that never come back; one match is enough',
    ),
    exceptions: means(
      z.array(exception),
      'The first whose goods have a line item replaces parts of the policy for it',
    ),
    countries: means(
      z.array(z.string()),
      'ISO 3166 codes of the shipping countries of orders that may come back; empty: all',
    ),
    outcomes: outcomes('The outcomes that are offered; empty: all'),
    return_methods: means(
      z.array(z.enum(RETURN_METHODS)),
      'The methods that are offered; empty: all',
    ),
    reasons: means(z.array(reason), 'The reasons that shoppers choose from; empty: free text'),
    fees: means(
      z.array(fee),
      'The fee of a return is the first with its method and outcome. It becomes `handling_fee`, and is at most refund and credit together',
    ),
    review: means(review, 'What puts a new return into review'),
    process: means(process, 'When returns are processed without a person'),
    refund_basis: means(
      z.enum(REFUND_BASES),
      'Which units are paid: those that were announced, or those that arrived undamaged or were accepted by a person',
    ),
    withdrawals: means(
      z.enum(WITHDRAWAL_HANDLINGS),
      'What a withdrawal from the contract becomes: a person decides, or it becomes a return at once',
    ),
  })
  .meta({ id: 'ReturnPolicy' });
export type PolicyObject = z.infer<typeof policy>;
