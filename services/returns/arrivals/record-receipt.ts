import { Code } from '@connectrpc/connect';
import type pg from 'pg';
import { z } from 'zod';
import { ErrorReason } from '../../../proto/gen/rms/common/v1/error_pb.ts';
import type { Arrival } from '../../../proto/gen/rms/returns/v1/arrivals_pb.ts';
import {
  type RecordReceiptRequest,
  RecordReceiptRequestSchema,
} from '../../../proto/gen/rms/returns/v1/arrivals_pb.ts';
import type { Return } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { ARRIVAL_ITEMS_MAX, ARRIVAL_NOTE_MAX, SHORT_TEXT_MAX } from '../../contract/limits.ts';
import type { Queryable } from '../../platform/postgres/postgres.ts';
import { DomainError, invalidField } from '../../platform/values/errors.ts';
import { oncePerKey, requestHash } from '../../platform/values/idempotency.ts';
import {
  callerShape,
  id,
  idempotencyKey,
  parseInput,
  requiredText,
  text,
  time,
} from '../../platform/values/input.ts';
import { type Destinations, destinationOf } from '../destinations.ts';
import { lineItemNotFound, returnNotFound } from '../errors.ts';
import { optionalId, pastTime, quantity } from '../fields.ts';
import { reopening } from '../returnable.ts';
import type { ReturnStore } from '../store/return-store.ts';
import { endedText } from '../store/texts.ts';
import { countArrived, insertArrival, loadArrival, type NewUnexpected } from './arrival-store.ts';

interface ReceiptDeps {
  readonly store: ReturnStore;
  readonly destinations: Destinations;
}

const arrivedItem = z
  .object({
    lineItemId: id,
    quantity,
    damagedQuantity: z.int().nonnegative('must not be negative'),
    note: text(ARRIVAL_NOTE_MAX),
  })
  .refine((item) => item.damagedQuantity <= item.quantity, {
    path: ['damagedQuantity'],
    message: 'must not exceed quantity, which includes it',
  });

const unexpectedItem = z.object({
  sku: text(SHORT_TEXT_MAX),
  barcode: text(SHORT_TEXT_MAX),
  title: text(SHORT_TEXT_MAX),
  quantity,
  note: text(ARRIVAL_NOTE_MAX),
});

const most = `must have at most ${ARRIVAL_ITEMS_MAX} entries`;

const receipt = z.object({
  ...callerShape,
  idempotencyKey,
  destinationId: optionalId,
  arrivedAt: time.optional(),
  items: z
    .array(arrivedItem)
    .max(ARRIVAL_ITEMS_MAX, most)
    .superRefine((items, context) => {
      const seen = new Set<bigint>();
      for (const [index, { lineItemId }] of items.entries()) {
        const path = [index, 'lineItemId'];
        const message = 'must not name a line item twice';
        if (seen.has(lineItemId)) context.addIssue({ code: 'custom', path, message });
        seen.add(lineItemId);
      }
    }),
  unexpected: z.array(unexpectedItem).max(ARRIVAL_ITEMS_MAX, most),
});
type Receipt = z.output<typeof receipt>;

/**
 * Records what one delivery had of one return. The units of a line item add up over all arrivals. Units above the
 * announced ones are recorded as unexpected, and are never paid. Sets `returned_at` of the line items as `RecordArrival`
 * does. An expired return opens again. At a closed or cancelled return the arrival is recorded and shown, and changes
 * nothing else. Publishes `return.updated`.
 *
 * @returns the arrival, and whether an earlier call with the same key and content recorded it.
 * @throws DomainError INVALID_ARGUMENT; RETURNS_AMBIGUOUS; NOT_FOUND (return, line item, destination); IDEMPOTENCY_CONFLICT.
 */
export async function recordReceipt(
  deps: ReceiptDeps,
  request: RecordReceiptRequest,
): Promise<{ readonly arrival: Arrival; readonly repeated: boolean }> {
  const input = parseInput(receipt, request);
  if (input.items.length + input.unexpected.length === 0) {
    throw invalidField('items', 'must have at least 1 entry, or unexpected must');
  }
  const given = input.arrivedAt && pastTime('arrived_at', input.arrivedAt);
  const selector = parseSelector(request.return);
  await destinationOf(deps.destinations, input, input.destinationId);
  const { shopId } = input;
  const use = {
    shopId,
    operation: 'RecordReceipt',
    key: input.idempotencyKey,
    hash: requestHash(RecordReceiptRequestSchema, request),
  };
  return deps.store.inTransaction(shopId, async (tx) => {
    const { id: arrivalId, repeated } = await oncePerKey(tx, use, async () => {
      const returnId = await selectedReturn(tx, shopId, selector);
      return addArrival(deps.store, tx, { ...input, returnId, given });
    });
    return { arrival: await loadArrival(tx, { shopId, arrivalId }), repeated };
  });
}

async function addArrival(
  store: ReturnStore,
  tx: pg.PoolClient,
  input: Receipt & { readonly returnId: bigint; readonly given: Date | undefined },
): Promise<bigint> {
  const { returnId } = input;
  const { value } = await store.changeIn(tx, input, async (inside, current) => {
    const counted = await countArrived(inside, input);
    if (counted.length < input.items.length) throw lineItemNotFound('items');
    const excess: NewUnexpected[] = counted.flatMap(({ lineItemId, excess: units, ...goods }) =>
      units === 0 ? [] : { ...goods, lineItemId, quantity: units, note: '' },
    );
    const unexpected = [
      ...input.unexpected.map((one) => ({ ...one, lineItemId: null })),
      ...excess,
    ];
    const arrivalId = await insertArrival(inside, { ...input, unexpected });
    const reopened = await reopening(inside, current, 'Goods arrived');
    const entry = {
      returnId,
      kind: 'return.arrived',
      text: sentence(current, input, unexpected),
      facts: factsOf(input, { arrivalId, unexpected }),
    };
    return {
      value: arrivalId,
      stateChanges: reopened.stateChanges,
      timeline: [entry, ...reopened.timeline],
    };
  });
  return value;
}

const unitsOf = (items: readonly { readonly quantity: number }[]) =>
  items.reduce((sum, item) => sum + item.quantity, 0);
const damagedOf = (items: Receipt['items']) =>
  items.reduce((sum, item) => sum + item.damagedQuantity, 0);

function sentence(
  current: Return,
  { items, unexpected: announcedByCaller }: Receipt,
  unexpected: readonly NewUnexpected[],
): string {
  const units = unitsOf(items) + unitsOf(announcedByCaller);
  const damaged = damagedOf(items);
  const parts = [
    `Goods arrived: ${units} ${units === 1 ? 'unit' : 'units'}`,
    ...(damaged > 0 ? [`${damaged} damaged`] : []),
    ...(unexpected.length > 0 ? [`${unitsOf(unexpected)} not announced`] : []),
  ];
  return `${parts.join(', ')}${endedText(current)}`;
}

function factsOf(
  { items }: Receipt,
  { arrivalId, unexpected }: { arrivalId: bigint; unexpected: readonly NewUnexpected[] },
): Readonly<Record<string, string>> {
  const lines = items.map((item) => item.lineItemId).join(', ');
  const damaged = damagedOf(items);
  return {
    arrival: `${arrivalId}`,
    ...(items.length > 0 && { lines, units: `${unitsOf(items)}` }),
    ...(damaged > 0 && { damaged: `${damaged}` }),
    ...(unexpected.length > 0 && { unexpected: `${unitsOf(unexpected)}` }),
  };
}

/** How the return of an arrival is found, in the form of the `oneof` in the request. */
type Selector =
  | { readonly case: 'returnId'; readonly value: bigint }
  | { readonly case: 'trackingNumber' | 'orderName'; readonly value: string };

const byId = z.object({ returnId: id });
const byTracking = z.object({ trackingNumber: requiredText(SHORT_TEXT_MAX) });
const byName = z.object({ orderName: requiredText(SHORT_TEXT_MAX) });

function parseSelector(selector: RecordReceiptRequest['return']): Selector {
  switch (selector.case) {
    case undefined:
      throw invalidField('return_id', 'is required, or tracking_number, or order_name');
    case 'returnId':
      parseInput(byId, { returnId: selector.value });
      return selector;
    case 'trackingNumber':
      parseInput(byTracking, { trackingNumber: selector.value });
      return selector;
    case 'orderName':
      parseInput(byName, { orderName: selector.value });
      return selector;
    default:
      return selector satisfies never;
  }
}

const FIELDS = { trackingNumber: 'tracking_number', orderName: 'order_name' } as const;

/** Number of returns that the error for several matches names. */
const NAMED_MAX = 10;

const BY_TRACKING = `
select r.id, r.state = 'cancelled' as is_cancelled from returns r
 where r.shop_id = $1 and r.id = any(array(
         select b.return_id from labels b
          where b.shop_id = $1 and normal_form(b.tracking_number) = normal_form($2) and b.tracking_number <> ''))
 order by 2, r.id desc limit ${NAMED_MAX + 1}`;
const BY_NAME = `
select r.id, r.state = 'cancelled' as is_cancelled from returns r
 where r.shop_id = $1 and normal_form(r.order_name) = normal_form($2)
 order by 2, r.id desc limit ${NAMED_MAX + 1}`;

/**
 * Returns the id of the only return that matches. Cancelled returns count only when no other return matches. A return id
 * is not checked here.
 *
 * @throws DomainError RETURN_NOT_FOUND; RETURNS_AMBIGUOUS, which names the matches.
 */
async function selectedReturn(db: Queryable, shopId: bigint, selector: Selector): Promise<bigint> {
  if (selector.case === 'returnId') return selector.value;
  const { rows } = await db.query<{ id: bigint; is_cancelled: boolean }>({
    name: `receipt-${selector.case}`,
    text: selector.case === 'orderName' ? BY_NAME : BY_TRACKING,
    values: [shopId, selector.value],
  });
  const kept = rows.filter((row) => !row.is_cancelled);
  const ids = (kept.length > 0 ? kept : rows).map((row) => row.id);
  const [only, ...others] = ids;
  if (only === undefined) throw returnNotFound();
  if (others.length === 0) return only;
  const field = FIELDS[selector.case];
  const named = ids.slice(0, NAMED_MAX).join(', ');
  const more = ids.length > NAMED_MAX ? ' and more' : '';
  throw new DomainError(
    Code.InvalidArgument,
    ErrorReason.RETURNS_AMBIGUOUS,
    `${field} is that of the returns ${named}${more}: send a return_id`,
    { field },
  );
}
