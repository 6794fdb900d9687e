import type pg from 'pg';
import { z } from 'zod';
import { type Return, ReturnState } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import {
  type RecordArrivalRequest,
  RecordArrivalRequestSchema,
} from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { SHORT_TEXT_MAX } from '../../contract/limits.ts';
import { invalidField, stateForbids } from '../../platform/errors.ts';
import { keyUseOf } from '../../platform/idempotency.ts';
import { callerShape, id, parseInput, text, time } from '../../platform/input.ts';
import type { Queryable } from '../../platform/postgres.ts';
import { type Destinations, destinationOf } from '../destinations.ts';
import { lineItemNotFound } from '../errors.ts';
import { optionalId } from '../fields.ts';
import { pastTime } from '../past.ts';
import { reopening } from '../returnable.ts';
import { returnsOfLines } from '../store/line-owners.ts';
import type { ReturnStore } from '../store/return-store.ts';
import { stateText } from '../store/texts.ts';

export interface ArrivalDeps {
  readonly pool: pg.Pool;
  readonly store: ReturnStore;
  readonly destinations: Destinations;
}

const arrival = z.object({
  ...callerShape,
  lineItemIds: z.array(id).min(1, 'must hold at least one line').max(250, 'must hold at most 250'),
  returnedAt: time.optional(),
  consolidationTracking: text(SHORT_TEXT_MAX),
  consolidationDestinationId: optionalId,
});

/**
 * Records that goods of one return arrived, and the consolidated shipment that carries them on. An absent shipment or
 * time does not change the recorded one. A call that changes nothing publishes no event and adds no timeline entry, so
 * it may be repeated. When goods arrive, an expired return opens again.
 *
 * @throws DomainError INVALID_ARGUMENT (also for line items of several returns); NOT_FOUND (line item, destination);
 *   IDEMPOTENCY_CONFLICT; STATE_FORBIDS when the return is cancelled.
 */
export async function recordArrival(
  deps: ArrivalDeps,
  request: RecordArrivalRequest,
): Promise<Return> {
  const input = parseInput(arrival, request);
  const returnedAt = input.returnedAt && pastTime('returned_at', input.returnedAt);
  const [returnId, other] = await returnsOfLines(deps.pool, input.shopId, input.lineItemIds);
  if (returnId === undefined) throw lineItemNotFound();
  if (other !== undefined) throw invalidField('line_item_ids', 'must be line items of one return');
  await destinationOf(deps.destinations, input, input.consolidationDestinationId);

  const use = keyUseOf('RecordArrival', RecordArrivalRequestSchema, request);
  return deps.store.changeOnce({ ...input, returnId }, use, async (tx, current) => {
    if (current.state === ReturnState.CANCELLED) {
      throw stateForbids(`the return is ${stateText.toText(current.state)}`);
    }
    const lines = await arrive(tx, input, returnedAt);
    if (lines.length === 0) return { value: undefined };
    const facts = { lines: lines.join(', ') };
    const reopened = await reopening(tx, current, 'Goods arrived');
    return {
      value: undefined,
      stateChanges: reopened.stateChanges,
      timeline: [
        { returnId, kind: 'return.arrived', text: 'Goods arrived', facts },
        ...reopened.timeline,
      ],
    };
  });
}

const ARRIVE = `
update return_lines l
   set returned_at = arrived.returned_at, consolidation_tracking = arrived.tracking,
       consolidation_destination_id = arrived.destination_id
  from (
    select id, coalesce($3::timestamptz, returned_at, now()) as returned_at,
           coalesce(nullif($4, ''), consolidation_tracking) as tracking,
           coalesce(nullif($5::bigint, 0), consolidation_destination_id) as destination_id
      from return_lines where shop_id = $1 and id = any($2::bigint[])) arrived
 where l.shop_id = $1 and l.id = arrived.id
   and (l.returned_at, l.consolidation_tracking, l.consolidation_destination_id)
     is distinct from (arrived.returned_at, arrived.tracking, arrived.destination_id)
returning l.id`;

/** Writes the arrival. @returns the line items that changed, in the order of the request. */
async function arrive(
  tx: Queryable,
  input: z.output<typeof arrival>,
  returnedAt: Date | undefined,
): Promise<bigint[]> {
  const { rows } = await tx.query<{ id: bigint }>(ARRIVE, [
    input.shopId,
    input.lineItemIds,
    returnedAt ?? null,
    input.consolidationTracking,
    input.consolidationDestinationId,
  ]);
  const changed = new Set(rows.map((row) => row.id));
  return [...new Set(input.lineItemIds)].filter((lineItemId) => changed.has(lineItemId));
}
