import { MAX_ID, parseId } from '../../platform/ids.ts';
import { blank, characters } from '../../platform/text.ts';
import { SEARCH_TEXT_MAX } from '../limits.ts';
import { LABEL_STATUSES, RETURN_STATES } from '../vocabulary.ts';
import { InvalidParameter, type Page, parametersIn, type QueryResult, readQuery } from './query.ts';

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

function destinationOf(text: string | undefined): bigint | undefined {
  if (text === undefined) return undefined;
  const id = parseId(text);
  if (id === undefined) {
    throw new InvalidParameter('destination_id', `must be an integer from 1 to ${MAX_ID}`);
  }
  return id;
}

function searchText(text?: string): string {
  if (text === undefined) return '';
  // It would find everything.
  if (blank(text)) throw new InvalidParameter('query', 'must not be blank');
  if (characters(text) <= SEARCH_TEXT_MAX) return text;
  throw new InvalidParameter('query', `must be at most ${SEARCH_TEXT_MAX} characters`);
}
