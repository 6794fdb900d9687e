import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import type { Actor } from '../../../proto/gen/rms/common/v1/actor_pb.ts';
import type { Return } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import type { Queryable } from '../../platform/postgres.ts';
import { named, raw, type Sql, sql } from '../../platform/sql.ts';
import { returnNotFound } from '../errors.ts';
import { isOpenOrInReview, type StateChange } from '../return.ts';
import { NEXT_REVISION } from './next-revision.ts';
import { stateText } from './texts.ts';
import { addTimeline, insertTimeline, type NewTimelineEntry } from './timeline-store.ts';

// SQL condition for one id or several. PostgreSQL plans a named statement with a list in each call, because it assumes
// that the list is long. Most calls have only one id, for which it keeps the plan.
function isOneOf(ids: readonly bigint[]): Sql {
  return ids.length === 1 ? sql`= ${ids[0]}` : sql`= any(${ids}::bigint[])`;
}

/**
 * Locks returns in the order of their ids.
 *
 * @throws DomainError RETURN_NOT_FOUND when the shop does not have all of them.
 */
export async function lockReturns(
  tx: Queryable,
  shopId: bigint,
  returnIds: readonly bigint[],
): Promise<bigint[]> {
  const { rows } = await tx.query<{ id: bigint }>(
    named(
      returnIds.length === 1 ? 'lock-return' : 'lock-returns',
      sql`select id from returns where shop_id = ${shopId} and id ${isOneOf(returnIds)} order by id for update`,
    ),
  );
  if (rows.length !== returnIds.length) throw returnNotFound();
  return rows.map((row) => row.id);
}

// When a return has ended, another return may have its line items. When it opens again, no other return may have them.
const SAVE_STATE = `
with lines as (
  update return_lines set live = $5
   where shop_id = $1 and return_id = $2 and removed_at is null and live <> $5
)
update returns
   set state = $3, flag_reasons = $4, processing = false,
       archived_at = case $3 when 'closed' then now() end,
       ${NEXT_REVISION}
 where shop_id = $1 and id = $2`;

/** Writes the new state of a return, and gives the return its next revision. Only this statement changes the state. */
export async function saveState(tx: Queryable, shopId: bigint, change: StateChange): Promise<void> {
  await tx.query({
    name: 'save-state',
    text: SAVE_STATE,
    values: [
      shopId,
      change.returnId,
      stateText.toText(change.state),
      change.flagReasons,
      isOpenOrInReview(change.state),
    ],
  });
}

/**
 * Writes the timeline entries of a change. Gives each return of `unsavedIds` its next revision: these changed, but
 * `saveState` did not save them.
 *
 * @returns all returns of `written`, with their revision and time.
 */
export async function recordChange(
  tx: Queryable,
  by: { readonly shopId: bigint; readonly actor: Actor },
  o: {
    readonly written: readonly Return[];
    readonly unsavedIds: readonly bigint[];
    readonly timeline: readonly NewTimelineEntry[];
  },
): Promise<readonly Return[]> {
  if (o.unsavedIds.length === 0) {
    await addTimeline(tx, by, o.timeline);
    return o.written;
  }
  const { rows } = await tx.query<{ id: bigint; revision: bigint; updated_at: Date }>(
    named(
      o.unsavedIds.length === 1 ? 'record-change-of-one' : 'record-change',
      sql`
with noted as (${insertTimeline(by, o.timeline)}
)
update returns
   set ${raw(NEXT_REVISION)}
 where shop_id = ${by.shopId} and id ${isOneOf(o.unsavedIds)}
returning id, revision, updated_at`,
    ),
  );
  const bumped = new Map(rows.map((row) => [row.id, row]));
  return o.written.map((current) => {
    const row = bumped.get(current.id);
    if (!row) return current;
    return { ...current, revision: row.revision, updatedAt: timestampFromDate(row.updated_at) };
  });
}
