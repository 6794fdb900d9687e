import { ID_RULE, parseId } from '../../platform/values/ids.ts';
import { characters } from '../../platform/values/text.ts';
import { SHORT_TEXT_MAX } from '../limits.ts';
import { CURRENCY_TYPES, type CurrencyType } from '../vocabulary.ts';
import { InvalidParameter, parametersIn, type QueryResult, readQuery } from './query.ts';

/** Selects a return. It has the form of the `oneof` in the message to the returns service. */
export type DetailsSelector =
  | { readonly case: 'returnId' | 'orderId' | 'providerOrderId'; readonly value: bigint }
  | { readonly case: 'orderName'; readonly value: string };

export interface DetailsQuery {
  readonly selector: DetailsSelector;
  readonly currencyType: CurrencyType | undefined;
}

/** The returns service reads an `order_id` that no order of the shop has as a provider's order id. */
const ID_SELECTORS = {
  return_id: 'returnId',
  order_id: 'orderId',
  provider_order_id: 'providerOrderId',
} as const;
const DETAILS_SELECTORS = ['return_id', 'order_id', 'order_name', 'provider_order_id'] as const;

/** The parameters of the query. */
export const DETAILS_PARAMETERS = [...DETAILS_SELECTORS, 'currency_type'] as const;

/**
 * Parses the query of return details. It must have exactly one selector. Each known parameter may occur once, and must
 * not be empty.
 */
export function readDetailsQuery(query: URLSearchParams): QueryResult<DetailsQuery> {
  const read = readQuery(() => {
    const parameters = parametersIn(query, DETAILS_PARAMETERS, {
      ids: Object.keys(ID_SELECTORS),
    });
    const currencyType = parameters.word('currency_type', CURRENCY_TYPES);
    const [name, second] = DETAILS_SELECTORS.filter((selector) => query.has(selector));
    if (name === undefined) {
      const rule = 'or order_id, order_name or provider_order_id is required';
      throw new InvalidParameter('return_id', rule);
    }
    if (second !== undefined) {
      throw new InvalidParameter(second, `must not be given together with ${name}`);
    }
    return { name, selector: selectorOf(name, parameters.text(name) ?? ''), currencyType };
  });
  if (!read.ok) return read;
  const { name, selector, currencyType } = read.value;
  if (selector) return { ok: true, value: { selector, currencyType } };
  const rule = name === 'order_name' ? `must be at most ${SHORT_TEXT_MAX} characters` : ID_RULE;
  return { ok: false, notFound: true, field: name, rule };
}

function selectorOf(
  name: (typeof DETAILS_SELECTORS)[number],
  text: string,
): DetailsSelector | undefined {
  if (name === 'order_name') {
    return characters(text) <= SHORT_TEXT_MAX ? { case: 'orderName', value: text } : undefined;
  }
  const value = parseId(text);
  if (value === undefined) return undefined;
  return { case: ID_SELECTORS[name], value };
}
