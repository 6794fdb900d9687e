import { z } from 'zod';
import { MAX_ID, parseId } from '../../platform/values/ids.ts';
import { blank, characters } from '../../platform/values/text.ts';
import { SEARCH_TEXT_MAX, SHORT_TEXT_MAX } from '../limits.ts';
import {
  LABEL_STATUSES,
  RETURN_METHODS,
  RETURN_OUTCOMES,
  RETURN_STATES,
  RETURN_TYPES,
} from '../vocabulary.ts';
import {
  InvalidParameter,
  type Page,
  type Parameters,
  parametersIn,
  type QueryResult,
  readQuery,
} from './query.ts';
import { amount, nullableId, nullableText, means as of, time } from './response-fields.ts';

/** The possible orders of a list of returns. `-` means the latest first. */
export const RETURN_SORTS = ['-created_at', 'created_at', '-updated_at', 'updated_at'] as const;
/** Whether a list contains archived returns. A closed return is archived. */
export const ARCHIVED_FILTERS = ['exclude', 'include', 'only'] as const;

/** Selects returns, and a page of them. */
export interface ReturnsListQuery extends Page {
  /** Only returns in these states; empty for all states. */
  readonly states: readonly (typeof RETURN_STATES)[number][];
  /** Only returns whose newest label has one of these statuses; empty for all. */
  readonly labelStatuses: readonly (typeof LABEL_STATUSES)[number][];
  /** When undefined, the list contains archived returns only if the states include `closed`. */
  readonly archived: (typeof ARCHIVED_FILTERS)[number] | undefined;
  /** Inclusive. */
  readonly createdFrom: Date | undefined;
  /** Exclusive. */
  readonly createdTo: Date | undefined;
  /** Inclusive. */
  readonly updatedFrom: Date | undefined;
  /** Exclusive. */
  readonly updatedTo: Date | undefined;
  readonly destinationId: bigint | undefined;
  /**
   * A whole order name or return id, each with or without `#`, a whole SKU, tracking number or e-mail address, or a part
   * of a title or of the shopper's name. Empty for all returns.
   */
  readonly query: string;
  readonly sort: (typeof RETURN_SORTS)[number];
}

/** The parameters of the query. */
export const RETURNS_PARAMETERS = [
  ...['state', 'label_status', 'archived', 'destination_id', 'query', 'sort', 'limit', 'cursor'],
  ...['created_from', 'created_to', 'updated_from', 'updated_to'],
] as const;

/** The parameters that take several words, each with an example. */
export const RETURNS_LISTS: Readonly<Record<string, string>> = {
  state: 'state=open,closed',
  label_status: 'label_status=error,failure',
};

/** Parses the query of a list of returns. Each known parameter may occur once, and must not be empty. */
export function readReturnsQuery(query: URLSearchParams): QueryResult<ReturnsListQuery> {
  return readQuery(() => {
    const parameters = parametersIn<string>(query, RETURNS_PARAMETERS, {
      lists: RETURNS_LISTS,
    });
    const created = parameters.period('created_from', 'created_to');
    const updated = parameters.period('updated_from', 'updated_to');
    return {
      states: parameters.words('state', RETURN_STATES),
      labelStatuses: parameters.words('label_status', LABEL_STATUSES),
      archived: parameters.word('archived', ARCHIVED_FILTERS),
      createdFrom: created.from,
      createdTo: created.to,
      updatedFrom: updated.from,
      updatedTo: updated.to,
      destinationId: destinationOf(parameters.text('destination_id')),
      query: searchText(parameters.text('query')),
      sort: parameters.word('sort', RETURN_SORTS) ?? '-created_at',
      ...parameters.page(),
    };
  });
}

/** Parses the parameter `destination_id`. @throws InvalidParameter */
export function destinationOf(text: string | undefined): bigint | undefined {
  if (text === undefined) return undefined;
  const id = parseId(text);
  if (id === undefined) {
    throw new InvalidParameter('destination_id', `must be an integer from 1 to ${MAX_ID}`);
  }
  return id;
}

/** A text of at most 191 characters; empty when it is absent. @throws InvalidParameter */
export function shortText<Name extends string>(parameters: Parameters<Name>, name: Name): string {
  const text = parameters.text(name) ?? '';
  if (characters(text) <= SHORT_TEXT_MAX) return text;
  throw new InvalidParameter(name, `must be at most ${SHORT_TEXT_MAX} characters`);
}

function searchText(text?: string): string {
  if (text === undefined) return '';
  // It would find everything.
  if (blank(text)) throw new InvalidParameter('query', 'must not be blank');
  if (characters(text) <= SEARCH_TEXT_MAX) return text;
  throw new InvalidParameter('query', `must be at most ${SEARCH_TEXT_MAX} characters`);
}

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
