import type { Queryable } from '../../platform/postgres/postgres.ts';
import { isOpenOrInReview, type StateChange } from '../return.ts';
import { NEXT_REVISION } from './next-revision.ts';
import { stateText } from './texts.ts';

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
