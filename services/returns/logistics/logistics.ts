import { create } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import type pg from 'pg';
import { z } from 'zod';
import {
  type Return,
  ReturnState,
  type Shipment,
  ShipmentSchema,
} from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import {
  type RecordArrivalRequest,
  RecordArrivalRequestSchema,
  type RecordPartnerShipmentRequest,
  RecordPartnerShipmentRequestSchema,
} from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { SHORT_TEXT_MAX } from '../../contract/limits.ts';
import { appendEvents } from '../../platform/outbox/append.ts';
import type { Queryable } from '../../platform/postgres/postgres.ts';
import { invalidField, stateForbids } from '../../platform/values/errors.ts';
import {
  idempotencyConflict,
  keyUseOf,
  oncePerKey,
  requestHash,
} from '../../platform/values/idempotency.ts';
import {
  callerShape,
  id,
  parseInput,
  requiredText,
  text,
  time,
} from '../../platform/values/input.ts';
import { type Destinations, destinationOf } from '../destinations.ts';
import { lineItemNotFound } from '../errors.ts';
import { optionalId, pastTime } from '../fields.ts';
import { type Reopening, reopening } from '../returnable.ts';
import { returnsOfLines } from '../store/line-owners.ts';
import type { ReturnStore } from '../store/return-store.ts';
import { endedText, stateText } from '../store/texts.ts';

interface ArrivalDeps {
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
        { returnId, kind: 'return.arrived', text: `Goods arrived${endedText(current)}`, facts },
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

interface ShipmentDeps {
  readonly store: ReturnStore;
  readonly destinations: Destinations;
}

const newShipment = z.object({
  ...callerShape,
  partnerShipmentId: requiredText(200),
  lineItemIds: z
    .array(id)
    .min(1, 'must hold at least one line')
    .max(1_000, 'must hold at most 1000 lines'),
  tracking: text(SHORT_TEXT_MAX),
  destinationId: optionalId,
  processedAt: time.optional(),
});
type NewShipment = z.output<typeof newShipment>;

/**
 * Records a consolidated shipment that a warehouse partner processed, and on each line item its tracking and
 * destination. An expired return opens again. The partner's id is the idempotency key: a repeated call with the same
 * content returns the first shipment.
 *
 * @throws DomainError INVALID_ARGUMENT; NOT_FOUND (line item, destination); IDEMPOTENCY_CONFLICT.
 */
export async function recordPartnerShipment(
  { store, destinations }: ShipmentDeps,
  request: RecordPartnerShipmentRequest,
): Promise<Shipment> {
  const input = parseInput(newShipment, request);
  const processedAt = input.processedAt ? pastTime('processed_at', input.processedAt) : new Date();
  await destinationOf(destinations, input, input.destinationId);
  const use = {
    shopId: input.shopId,
    operation: 'RecordPartnerShipment',
    key: input.partnerShipmentId,
    hash: requestHash(RecordPartnerShipmentRequestSchema, request),
    field: 'partner_shipment_id',
  };
  return store.inTransaction(input.shopId, async (tx) => {
    const { id: shipmentId } = await oncePerKey(tx, use, () =>
      record(store, tx, { ...input, processedAt }),
    );
    const shipment = await loadShipment(tx, input.shopId, shipmentId);
    if (!shipment) throw idempotencyConflict('partner_shipment_id');
    return shipment;
  });
}

async function record(
  store: ReturnStore,
  tx: pg.PoolClient,
  input: NewShipment & { readonly processedAt: Date },
): Promise<bigint> {
  const { shopId, actor } = input;
  const returnIds = await returnsOfLines(tx, shopId, input.lineItemIds);
  const requestedLines = new Set(input.lineItemIds);
  const facts = { partner_shipment_id: input.partnerShipmentId, tracking: input.tracking };
  const text = 'A consolidated shipment carries the goods on';
  // In parts, because a thousand line items may belong to a thousand returns.
  const by = { ...input, returnIds };
  const changedIds = await store.changeInParts(tx, by, async (inside, current) => {
    const lines = current.flatMap((one) => one.lineItems.map((line) => line.lineItemId));
    const lineItemIds = lines.filter((lineItemId) => requestedLines.has(lineItemId));
    await consolidate(inside, { ...input, lineItemIds });
    const kind = 'shipment.processed';
    const entries = current.map(({ id: returnId }) => ({ returnId, kind, text, facts }));
    const reopened: Reopening[] = [];
    for (const one of current) {
      const opening = reopened.flatMap(({ stateChanges }) => stateChanges);
      const openingIds = opening.map(({ returnId }) => returnId);
      reopened.push(await reopening(inside, one, 'Goods reached a warehouse partner', openingIds));
    }
    return {
      value: undefined,
      stateChanges: reopened.flatMap((one) => one.stateChanges),
      timeline: [...entries, ...reopened.flatMap((one) => one.timeline)],
    };
  });
  const value = await insertShipment(tx, { ...input, returnIds: changedIds });
  const shipment = await loadShipment(tx, shopId, value);
  if (!shipment) throw new Error('a shipment was not stored');
  await appendEvents(tx, [
    {
      trigger: 'shipment.processed',
      shopId,
      key: `${shopId}:${shipment.id}`,
      actor,
      detail: { case: 'shipment', value: shipment },
    },
  ]);
  return value;
}

async function consolidate(tx: Queryable, input: NewShipment): Promise<void> {
  await tx.query(
    `update return_lines
        set consolidation_tracking = coalesce(nullif($3, ''), consolidation_tracking),
            consolidation_destination_id =
              coalesce(nullif($4::bigint, 0), consolidation_destination_id)
      where shop_id = $1 and id = any($2::bigint[])`,
    [input.shopId, input.lineItemIds, input.tracking, input.destinationId],
  );
}

async function insertShipment(
  tx: Queryable,
  shipment: NewShipment & { readonly returnIds: readonly bigint[] } & { processedAt: Date },
): Promise<bigint> {
  const { rows } = await tx.query<{ id: bigint }>(
    `insert into shipments (shop_id, partner_shipment_id, tracking, destination_id, return_ids,
                            processed_at)
     values ($1, $2, $3, nullif($4::bigint, 0), $5, $6) returning id`,
    [
      shipment.shopId,
      shipment.partnerShipmentId,
      shipment.tracking,
      shipment.destinationId,
      shipment.returnIds,
      shipment.processedAt,
    ],
  );
  if (!rows[0]) throw new Error('a shipment was not stored');
  return rows[0].id;
}

async function loadShipment(
  db: Queryable,
  shopId: bigint,
  shipmentId: bigint,
): Promise<Shipment | undefined> {
  const { rows } = await db.query<{
    id: bigint;
    partner_shipment_id: string;
    return_ids: bigint[];
    processed_at: Date;
  }>(
    `select id, partner_shipment_id, return_ids, processed_at from shipments
      where shop_id = $1 and id = $2`,
    [shopId, shipmentId],
  );
  const [row] = rows;
  return (
    row &&
    create(ShipmentSchema, {
      id: row.id,
      partnerShipmentId: row.partner_shipment_id,
      returnIds: row.return_ids,
      processedAt: timestampFromDate(row.processed_at),
    })
  );
}
