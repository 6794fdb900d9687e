import {
  type Label,
  LabelStatusSchema,
  OutcomeSchema,
  type Return,
} from '../../proto/gen/rms/returns/v1/return_pb.ts';
import { word } from '../../services/contract/views/values.ts';
import { LABEL_STATUSES, RETURN_OUTCOMES } from '../../services/contract/vocabulary.ts';
import type { ActionContext } from '../actions/context.ts';
import { type ReturnsQuery, searchReturns } from '../actions/search-returns.ts';

/** The filters that the search of the returns service does not have. An empty list matches all. */
export interface FurtherFilters {
  /** Statuses of the newest label; `none` for returns without a label. */
  readonly labelStatuses: readonly string[];
  readonly outcomes: readonly string[];
}

export interface FoundReturns {
  readonly returns: readonly Return[];
  readonly nextCursor: string;
  /** Number of matches on all pages, up to 10,000; 0 when it is unknown. */
  readonly total: number;
}

/** Returns without a label. */
export const NO_LABEL = 'none';

/** Maximum number of pages that one call reads while none of their returns matches. */
const MAX_PAGES = 10;

/**
 * Returns a page of returns. With further filters a page may be shorter than its limit, or empty before the last one,
 * and the total is unknown: they are applied to the pages of the search.
 */
export async function findReturns(
  context: ActionContext,
  query: ReturnsQuery,
  further: FurtherFilters,
): Promise<FoundReturns> {
  const { labelStatuses, outcomes } = further;
  if (labelStatuses.length === 0 && outcomes.length === 0) return searchReturns(context, query);
  let { cursor = '' } = query;
  for (let pages = 1; ; pages += 1) {
    const page = await searchReturns(context, { ...query, cursor });
    const returns = page.returns.filter((ret) => isMatch(ret, further));
    cursor = page.nextCursor;
    if (returns.length > 0 || cursor === '' || pages === MAX_PAGES) {
      return { returns, nextCursor: cursor, total: 0 };
    }
  }
}

function isMatch(
  { labels, outcome }: Return,
  { labelStatuses, outcomes }: FurtherFilters,
): boolean {
  const isOutcome =
    outcomes.length === 0 || outcomes.includes(word(OutcomeSchema, outcome, RETURN_OUTCOMES) ?? '');
  return (
    isOutcome && (labelStatuses.length === 0 || labelStatuses.includes(statusOf(labels.at(-1))))
  );
}

function statusOf(label: Label | undefined): string {
  return label ? (word(LabelStatusSchema, label.status, LABEL_STATUSES) ?? '') : NO_LABEL;
}
