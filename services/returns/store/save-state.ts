import type { Queryable } from '../../platform/postgres.ts';
import { isLive, type StateChange } from '../return.ts';
import { stateText } from './texts.ts';

// Lines of a return that came to its end are free for another return; those of one that opens again are not.
const SAVE_STATE = `
with lines as (
  update return_lines set live = $5
   where shop_id = $1 and return_id = $2 and removed_at is null and live <> $5
)
update returns
   set state = $3, flag_reasons = $4, processing = false,
       archived_at = case $3 when 'closed' then now() end
 where shop_id = $1 and id = $2`;

/** Writes the state of a return: the only statement that does, but for the one that inserts it. */
export async function saveState(tx: Queryable, shopId: bigint, change: StateChange): Promise<void> {
  await tx.query({
    name: 'save-state',
    text: SAVE_STATE,
    values: [
      shopId,
      change.returnId,
      stateText.toText(change.state),
      change.flagReasons,
      isLive(change.state),
    ],
  });
}
