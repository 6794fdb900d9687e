/**
 * SQL that a change of the details sets in `returns`. The filters `updated_from` and `updated_to` compare `updated_at`.
 *
 * A change counts when the details are different afterwards: `encodeDetails` (`encoded.ts`) says what belongs to them,
 * and `store-statement.ts` of inspections compares the columns of an inspection. A note in the timeline does not count,
 * and neither does the flag `processing`.
 */
export const NEXT_REVISION =
  'revision = revision + 1, updated_at = greatest(updated_at, clock_timestamp())';
