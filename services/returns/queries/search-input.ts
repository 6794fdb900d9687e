import { z } from 'zod';
import { LabelStatus, Outcome, ReturnState } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import {
  SearchReturnsRequest_Archived as Archived,
  SearchReturnsRequest_Sort as Sort,
} from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { SHORT_TEXT_MAX } from '../../contract/limits.ts';
import { callerShape, text, time } from '../../platform/input.ts';
import type { ListFilters } from '../../platform/list-cursor.ts';
import { optionalId } from '../fields.ts';
import { pageSize } from './cursor.ts';

/** What selects returns. */
const FILTERS = {
  query: text(320),
  states: z
    .array(
      z
        .enum(ReturnState, 'is unknown')
        .refine((value) => value !== ReturnState.UNSPECIFIED, 'is required'),
    )
    .max(20, 'must hold at most 20'),
  createdFrom: time.optional(),
  createdTo: time.optional(),
  updatedFrom: time.optional(),
  updatedTo: time.optional(),
  includeArchived: z.boolean(),
  archived: z.enum(Archived, 'is unknown'),
  flaggedOnly: z.boolean(),
  fraudReportedOnly: z.boolean(),
  sku: text(SHORT_TEXT_MAX),
  destinationId: optionalId,
  labelStatuses: z
    .array(
      z
        .enum(LabelStatus, 'is unknown')
        .refine((value) => value !== LabelStatus.UNSPECIFIED, 'is required'),
    )
    .max(20, 'must hold at most 20')
    .transform((statuses) => [...new Set(statuses)]),
  /** Returns without a label match, too; without label statuses only they match. */
  withoutLabel: z.boolean(),
  outcomes: z
    .array(
      z.enum(Outcome, 'is unknown').refine((value) => value !== Outcome.UNSPECIFIED, 'is required'),
    )
    .max(20, 'must hold at most 20')
    .transform((outcomes) => [...new Set(outcomes)]),
};

/** The request of a search, checked. */
export const searchInput = z.object({
  ...callerShape,
  ...FILTERS,
  pageSize,
  cursor: z.string(),
  sort: z.enum(Sort, 'is unknown'),
});
export type SearchInput = z.output<typeof searchInput>;

/** What a cursor of the search belongs to: the shop and the filters. */
export function filtersOf(input: SearchInput): ListFilters {
  const { shopId } = input;
  const filters = Object.entries(input).filter(([name]) => name in FILTERS);
  return { shopId, ...Object.fromEntries(filters) };
}
