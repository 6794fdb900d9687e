import { parseId } from '../../platform/ids.ts';
import { characters } from '../../platform/text.ts';
import { SHORT_TEXT_MAX } from '../limits.ts';
import { CURRENCY_TYPES, type CurrencyType } from '../vocabulary.ts';
import { textError } from './fields.ts';

/** Selects a return. It has the shape of the oneof in the internal request. */
export type DetailsSelector =
  | { readonly case: 'returnId' | 'orderId' | 'providerOrderId'; readonly value: bigint }
  | { readonly case: 'orderName'; readonly value: string };

export interface DetailsQuery {
  readonly selector: DetailsSelector;
  readonly currencyType: CurrencyType | undefined;
}

export type DetailsQueryResult =
  | { readonly ok: true; readonly value: DetailsQuery }
  | { readonly ok: false; readonly field: string; readonly rule: string }
  | { readonly ok: false; readonly notFound: true };

const ID_SELECTORS = {
  return_id: 'returnId',
  order_id: 'orderId',
  provider_order_id: 'providerOrderId',
} as const;
const DETAILS_SELECTORS = ['return_id', 'order_id', 'order_name', 'provider_order_id'] as const;

/** Parses the query of return details: exactly one selector, each known parameter at most once, and not empty. */
export function readDetailsQuery(query: URLSearchParams): DetailsQueryResult {
  for (const name of [...DETAILS_SELECTORS, 'currency_type']) {
    const values = query.getAll(name);
    if (values.length > 1) return invalid(name, 'must be given once');
    if (values[0] === '') return invalid(name, 'must not be empty');
    const error = textError(values[0] ?? '');
    if (error !== undefined) return invalid(name, error);
  }
  const currency = query.get('currency_type');
  const currencyType = CURRENCY_TYPES.find((type) => type === currency);
  if (currency !== null && currencyType === undefined) {
    return invalid('currency_type', `must be one of ${CURRENCY_TYPES.join(', ')}`);
  }
  const [name, second] = DETAILS_SELECTORS.filter((selector) => query.has(selector));
  if (name === undefined)
    return invalid('return_id', 'or order_id, order_name or provider_order_id is required');
  if (second !== undefined) return invalid(second, `must not be given together with ${name}`);
  const selector = selectorOf(name, query.get(name) ?? '');
  return selector ? { ok: true, value: { selector, currencyType } } : { ok: false, notFound: true };
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

function invalid(field: string, rule: string): DetailsQueryResult {
  return { ok: false, field, rule };
}
