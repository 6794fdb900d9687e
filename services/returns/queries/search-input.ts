import { z } from 'zod';
import { LabelStatus, Outcome, ReturnState } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import {
  SearchReturnsRequest_Archived as Archived,
  SearchReturnsRequest_Sort as Sort,
} from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { SEARCH_TEXT_MAX, SHORT_TEXT_MAX } from '../../contract/limits.ts';
import { callerShape, text, time } from '../../platform/input.ts';
import type { ListFilters } from '../../platform/list-cursor.ts';
import { normalForm } from '../../platform/text.ts';
import { optionalId } from '../fields.ts';
import { pageSize } from './cursor.ts';

/** Maximum number of values of one filter. A longer list is rejected before its values are compared. */
const VALUES_MAX = 20;

/** A filter by values of an enumeration, each once. Its zero means that a value is missing. */
function valuesOf<T extends Readonly<Record<string, string | number>>>(enumeration: T) {
  const value = z.enum(enumeration, 'is unknown').refine((one) => one !== 0, 'is required');
  return z
    .array(value)
    .max(VALUES_MAX, `must hold at most ${VALUES_MAX}`)
    .transform((values) => [...new Set(values)]);
}

/** The filters that select returns. */
const FILTERS = {
  /** In the normal form, in which texts are compared. */
  query: text(SEARCH_TEXT_MAX).transform(normalForm),
  states: valuesOf(ReturnState),
  createdFrom: time.optional(),
  createdTo: time.optional(),
  updatedFrom: time.optional(),
  updatedTo: time.optional(),
  includeArchived: z.boolean(),
  archived: z.enum(Archived, 'is unknown'),
  flaggedOnly: z.boolean(),
  fraudReportedOnly: z.boolean(),
  sku: text(SHORT_TEXT_MAX).transform(normalForm),
  destinationId: optionalId,
  labelStatuses: valuesOf(LabelStatus),
  /** Returns without a label match, too; without label statuses only they match. */
  withoutLabel: z.boolean(),
  outcomes: valuesOf(Outcome),
};

/** The schema of a search request. */
export const searchInput = z.object({
  ...callerShape,
  ...FILTERS,
  pageSize,
  cursor: z.string(),
  sort: z.enum(Sort, 'is unknown'),
});
export type SearchInput = z.output<typeof searchInput>;

/** Returns the filters to which a cursor of the search belongs, including the shop. */
export function filtersOf(input: SearchInput): ListFilters {
  const { shopId } = input;
  const filters = Object.entries(input).filter(([name]) => name in FILTERS);
  return { shopId, ...Object.fromEntries(filters) };
}
