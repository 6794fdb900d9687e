/**
 * SQL assignments in `returns` for a change of the details. The filters `updated_from` and `updated_to` compare
 * `updated_at`.
 *
 * All events of one change have the same revision. An event without a change of the details, such as the failure of a
 * run that made no effect, has the revision of the event before it.
 *
 * A change counts when the details are different after it. `encodeDetails` (`encoded.ts`) says what belongs to the
 * details. For inspections, `store-statement.ts` compares their columns. A note in the timeline does not count, and
 * neither does the flag `processing`.
 */
export const NEXT_REVISION =
  'revision = revision + 1, updated_at = greatest(updated_at, clock_timestamp())';
