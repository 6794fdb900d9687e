import { z } from 'zod';
import {
  LABEL_STATUSES,
  RETURN_METHODS,
  RETURN_OUTCOMES,
  RETURN_STATES,
  RETURN_TYPES,
} from '../vocabulary.ts';
import { amount, nullableId, nullableText, means as of, time } from './response-fields.ts';

/**
 * Rows of the list of returns: an addition to the interface. Unlike return details, they contain no names of people.
 */

const totals = {
  total: of(amount(), 'Total cost of the return: net value of the items, plus shipping, minus fee'),
  refund: of(amount(), 'What is refunded'),
  return_credit_total: of(amount(), 'What the shopper gets as credit'),
  handling_fee: of(amount(), 'The fee that the merchant keeps'),
};

const returnSummary = z
  .object({
    id: of(z.int(), 'Identifier: `return_id` of get return details'),
    order_id: of(z.int(), "The order's id, as in return details"),
    order_name: of(z.string(), 'The order name, such as `#1001`'),
    order_number: of(nullableId(), 'The running number of the order; null when unknown'),
    provider_order_id: of(nullableId(), "The order's id at the commerce provider"),
    state: of(z.enum(RETURN_STATES), '`closed` returns are archived'),
    processing: of(z.boolean(), 'Whether processing is queued or running'),
    type: of(z.enum(RETURN_TYPES).nullable(), 'Why the goods come back'),
    outcome: of(z.enum(RETURN_OUTCOMES).nullable(), 'What the shopper gets'),
    return_method: of(z.enum(RETURN_METHODS).nullable(), 'How the goods travel'),
    currency: of(z.string(), "ISO 4217 code: the shop's currency, in which the next amounts are"),
    ...totals,
    presentment: of(
      z
        .object({ currency: of(z.string(), 'ISO 4217 code'), ...totals })
        .meta({ id: 'SummaryPresentment' }),
      'The same amounts in the currency that the shopper paid in',
    ),
    label_status: of(
      z.enum(LABEL_STATUSES).nullable(),
      'Of the newest label; null without a label',
    ),
    label_updated_at: of(time(), 'Last change of the newest label'),
    carrier: of(nullableText(), 'Of the newest label'),
    tracking_number: of(nullableText(), 'Of the newest label'),
    destination_id: of(nullableId(), 'Where the goods go: `id` of a destination'),
    created_at: of(time(), 'When the shopper submitted it'),
    updated_at: of(time(), 'When its details last changed'),
    edited_at: of(time(), 'When its line items were last edited; null until then'),
    archived_at: of(time(), 'When it was closed; null until then'),
  })
  .meta({ id: 'ReturnSummary' });
export type ReturnSummaryObject = z.infer<typeof returnSummary>;

export const returnPage = z
  .object({
    returns: of(z.array(returnSummary), 'In the order of `sort`'),
    next_cursor: of(z.string().nullable(), '`cursor` of the next page; null on the last'),
  })
  .meta({ id: 'ReturnPage' });
export type ReturnPage = z.infer<typeof returnPage>;
