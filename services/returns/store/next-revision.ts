/**
 * SQL: the revision after that of the row. After the promotion of a standby, a revision that was lost may be known to
 * receivers. So the next revision of each return is then at least `revision_floor`, see migration
 * `failover/0001_server_timeline`.
 */
const NEXT = 'greatest(revision + 1, (select revision_floor from server_timeline))';

/**
 * SQL assignments in `returns` for a change of the details. The filters `updated_from` and `updated_to` compare
 * `updated_at`.
 *
 * All events of one change have the same revision. An event without a change of the details, such as the failure of a
 * run that made no effect, has the revision of the event before it.
 *
 * A change counts when the details are different after it. `encodeDetails` (`encoded.ts`) says what belongs to the
 * details. For inspections, `inspections/inspections.ts` compares their columns. A note in the timeline does not count, and
 * neither does the flag `processing`.
 */
export const NEXT_REVISION = `revision = ${NEXT}, updated_at = greatest(updated_at, clock_timestamp())`;
