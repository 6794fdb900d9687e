import { z } from 'zod';
import { parseId } from '../../platform/values/ids.ts';
import { EMAIL_MAX, SHORT_TEXT_MAX } from '../limits.ts';
import { INELIGIBILITY_CODES, RETURN_METHODS, SUBMITTED_OUTCOMES } from '../vocabulary.ts';
import { InvalidParameter, parametersIn, type QueryResult, readQuery } from './query.ts';
import { amount, id, means, nullableText, time } from './response-fields.ts';

/** What of an order may be returned: an addition to the interface. */

/** Selects an order, by its name or by the commerce platform's id. */
export type OrderBy =
  | { readonly case: 'orderName'; readonly value: string }
  | { readonly case: 'providerOrderId'; readonly value: bigint };

export interface EligibilityQuery {
  readonly order: OrderBy;
  readonly email: string | undefined;
}

/** The parameters of the query. */
export const ELIGIBILITY_PARAMETERS = ['order_name', 'provider_order_id', 'email'] as const;

/** Parses the query of eligibility. It must have exactly one of `order_name` and `provider_order_id`. */
export function readEligibilityQuery(query: URLSearchParams): QueryResult<EligibilityQuery> {
  const read = readQuery(() => {
    const parameters = parametersIn(query, ELIGIBILITY_PARAMETERS, { ids: ['provider_order_id'] });
    const [name, id, email] = ELIGIBILITY_PARAMETERS.map((one) => parameters.text(one));
    if (name === undefined && id === undefined) {
      throw new InvalidParameter('order_name', 'or provider_order_id is required');
    }
    if (name !== undefined && id !== undefined) {
      throw new InvalidParameter('provider_order_id', 'must not be given together with order_name');
    }
    for (const [field, text, max] of [
      ['order_name', name, SHORT_TEXT_MAX],
      ['email', email, EMAIL_MAX],
    ] as const) {
      if (text !== undefined && [...text].length > max) {
        throw new InvalidParameter(field, `must be at most ${max} characters`);
      }
    }
    return { name, id, email };
  });
  if (!read.ok) return read;
  const { name, id: text, email } = read.value;
  if (name !== undefined) {
    return { ok: true, value: { order: { case: 'orderName', value: name }, email } };
  }
  const value = parseId(text ?? '');
  if (value !== undefined) {
    return { ok: true, value: { order: { case: 'providerOrderId', value }, email } };
  }
  const rule = 'must be an integer from 1 to 9007199254740991';
  return { ok: false, notFound: true, field: 'provider_order_id', rule };
}

const outcomes = () => z.array(z.enum(SUBMITTED_OUTCOMES));

const eligibleLine = z
  .object({
    provider_line_item_id: means(id(), 'Identifier of the order line at the commerce platform'),
    sku: means(nullableText(), 'Stock keeping unit'),
    title: means(nullableText(), 'Title of the product'),
    variant_title: means(nullableText(), 'Title of the variant'),
    image: means(nullableText(), 'Link to an image'),
    ordered_quantity: means(z.int(), 'Units that were ordered'),
    returnable_quantity: means(z.int(), 'Units that may be returned now'),
    window_ends_at: means(time(), 'Until when; null when there is no end'),
    price: means(amount(), 'What the returnable units cost before discounts and tax'),
    refund: means(amount(), 'What a refund of the returnable units would pay, before fees'),
    outcomes: means(outcomes(), 'What the shopper may choose for this line'),
    reasons: means(
      z.array(
        z.object({
          code: means(z.enum(INELIGIBILITY_CODES), 'For programs'),
          message: means(z.string(), 'For people: a sentence'),
        }),
      ),
      'Why not all ordered units may be returned; empty when they may',
    ),
  })
  .meta({ id: 'EligibleLine' });

export const eligibility = z
  .object({
    order_name: means(z.string(), "The order's name at the commerce platform"),
    provider_order_id: means(id(), "The order's id at the commerce platform"),
    ordered_at: means(time(), 'When it was ordered; null when unknown'),
    currency: means(z.string(), "The shop's currency, an ISO 4217 code"),
    presentment_currency: means(
      z.string(),
      'The currency that the shopper paid in, and of all amounts here',
    ),
    policy_version: means(z.int(), 'Version of the return policy; 0 for a shop without one'),
    outcomes: means(outcomes(), 'What the policy offers'),
    return_methods: means(z.array(z.enum(RETURN_METHODS)), 'How goods may come back'),
    lines: means(z.array(eligibleLine), 'All lines of the order'),
  })
  .meta({ id: 'Eligibility' });
export type EligibilityObject = z.infer<typeof eligibility>;
