import type pg from 'pg';
import { z } from 'zod';
import { type Return, ReturnState } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import type { RecordArrivalRequest } from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { invalidField } from '../../platform/errors.ts';
import { callerShape, id, parseInput, text, time } from '../../platform/input.ts';
import { type Destinations, destinationOf } from '../destinations.ts';
import { pastTime } from '../past.ts';
import { lineItemNotFound, stateForbids } from '../refusals.ts';
import { returnsOfLines } from '../store/line-owners.ts';
import { stateText } from '../store/texts.ts';
import { changeReturn } from '../store/transition.ts';
import { optionalId } from '../submit/submission.ts';

const arrival = z.object({
  ...callerShape,
  lineItemIds: z.array(id).min(1, 'must hold at least one line').max(250, 'must hold at most 250'),
  returnedAt: time.optional(),
  consolidationTracking: text(191),
  consolidationDestinationId: optionalId,
});

/**
 * Notes that goods of one return arrived, and in which consolidated shipment they travel on; without
 * one, what was noted of a shipment before stays.
 *
 * @throws DomainError INVALID_ARGUMENT (also for lines of several returns); NOT_FOUND (line,
 *   destination); STATE_FORBIDS when the return is cancelled or expired.
 */
export async function recordArrival(
  deps: { readonly pool: pg.Pool; readonly destinations: Destinations },
  request: RecordArrivalRequest,
): Promise<Return> {
  const wanted = parseInput(arrival, request);
  const returnedAt = wanted.returnedAt ? pastTime('returned_at', wanted.returnedAt) : new Date();
  const [returnId, other] = await returnsOfLines(deps.pool, wanted.shopId, wanted.lineItemIds);
  if (returnId === undefined) throw lineItemNotFound();
  if (other !== undefined) throw invalidField('line_item_ids', 'must be lines of one return');
  await destinationOf(deps.destinations, wanted, wanted.consolidationDestinationId);

  const changed = await changeReturn(deps.pool, { ...wanted, returnId }, async (tx, current) => {
    if (current.state === ReturnState.CANCELLED || current.state === ReturnState.EXPIRED) {
      throw stateForbids(`the return is ${stateText.toText(current.state)}`);
    }
    await tx.query(
      `update return_lines
          set returned_at = $3,
              consolidation_tracking = coalesce(nullif($4, ''), consolidation_tracking),
              consolidation_destination_id =
                coalesce(nullif($5::bigint, 0), consolidation_destination_id)
        where shop_id = $1 and id = any($2::bigint[])`,
      [
        wanted.shopId,
        wanted.lineItemIds,
        returnedAt,
        wanted.consolidationTracking,
        wanted.consolidationDestinationId,
      ],
    );
    const facts = { lines: wanted.lineItemIds.join(', ') };
    return {
      value: undefined,
      timeline: [{ returnId, kind: 'return.arrived', text: 'Goods arrived', facts }],
    };
  });
  return changed.return;
}
