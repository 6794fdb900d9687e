import type pg from 'pg';
import { z } from 'zod';
import type { Return } from '../../proto/gen/rms/returns/v1/return_pb.ts';
import type { CancelReturnRequest } from '../../proto/gen/rms/returns/v1/returns_pb.ts';
import { callerShape, id, parseInput, text } from '../platform/input.ts';
import { isPaidForGood } from './instant-refunds/instant-refunds-store.ts';
import { cancelOpenLabelRequest } from './labels/label-request-store.ts';
import { mayHaveFulfilled } from './processing/outcomes.ts';
import { outcomesFulfilled, paidForGood, stateForbids } from './refusals.ts';
import { stateText } from './store/texts.ts';
import { changeReturn, isLive } from './store/transition.ts';

const cancellation = z.object({ ...callerShape, returnId: id, reason: text(4_000) });

/**
 * Cancels a return that is open or in review, and with it the label request that is open.
 *
 * @throws DomainError NOT_FOUND; STATE_FORBIDS when it is at its end, queued for processing, or has an
 *   outcome that a failed run fulfilled or may have, or an instant refund that was paid for good. One
 *   that is still open stands in nobody's way.
 */
export async function cancelReturn(pool: pg.Pool, request: CancelReturnRequest): Promise<Return> {
  const wanted = parseInput(cancellation, request);
  const changed = await changeReturn(pool, wanted, async (tx, current) => {
    if (!isLive(current.state)) {
      throw stateForbids(`the return is ${stateText.toText(current.state)}`);
    }
    if (current.processing) throw stateForbids('the return is queued for processing');
    if (await mayHaveFulfilled(tx, wanted)) throw outcomesFulfilled();
    if (await isPaidForGood(tx, wanted)) throw paidForGood();
    await tx.query(
      `update returns set state = 'cancelled', flag_reasons = '{}' where shop_id = $1 and id = $2`,
      [wanted.shopId, wanted.returnId],
    );
    const text = wanted.reason || 'The return was cancelled';
    return {
      value: undefined,
      events: await cancelOpenLabelRequest(tx, wanted),
      timeline: [{ returnId: current.id, kind: 'return.cancelled', text }],
    };
  });
  return changed.return;
}
