import { Code } from '@connectrpc/connect';
import type pg from 'pg';
import { z } from 'zod';
import { ErrorReason } from '../../../proto/gen/rms/common/v1/error_pb.ts';
import {
  type Label,
  LabelStatus,
  type Return,
  ReturnState,
} from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import {
  type RecordLabelRequest,
  RecordLabelRequestSchema,
  type UpdateLabelRequest,
  UpdateLabelRequestSchema,
} from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { LABEL_LINES_MAX, LABEL_URL_MAX, SHORT_TEXT_MAX } from '../../contract/limits.ts';
import type { Queryable } from '../../platform/postgres/postgres.ts';
import { param, sql, unnamed } from '../../platform/postgres/sql.ts';
import { DomainError, stateForbids } from '../../platform/values/errors.ts';
import {
  claimKey,
  keyUseOf,
  oncePerKey,
  releaseKey,
  requestHash,
} from '../../platform/values/idempotency.ts';
import {
  callerShape,
  id,
  idempotencyKey,
  parseInput,
  requiredText,
  text,
  time,
} from '../../platform/values/input.ts';
import { formatAmount, parseAmount } from '../../platform/values/money.ts';
import { lineItemNotFound } from '../errors.ts';
import { pastTime } from '../fields.ts';
import { isOpenOrInReview } from '../return.ts';
import { reopening } from '../returnable.ts';
import type { DetailEvent } from '../store/append-events.ts';
import type { ReturnStore } from '../store/return-store.ts';
import { labelStatusText, stateText } from '../store/texts.ts';
import { fulfilOpenRequest } from './label-requests.ts';

const newLabel = z.object({
  ...callerShape,
  idempotencyKey,
  returnId: id,
  carrier: requiredText(SHORT_TEXT_MAX),
  trackingNumber: text(SHORT_TEXT_MAX),
  url: text(LABEL_URL_MAX),
  rate: z.string(),
  lineItemIds: z.array(id).max(LABEL_LINES_MAX, `must hold at most ${LABEL_LINES_MAX}`),
  createdAt: time.optional(),
  status: z.enum(LabelStatus, 'is unknown').transform((value) => value || LabelStatus.NEW),
});
type NewLabel = z.output<typeof newLabel>;

/**
 * Adds a label to a return and ends its open label request. When the parcel of the label moves, an expired return opens
 * again. A repeated call with the same key and content returns the label of the first call, as it is now. Publishes
 * `label.created`, after the `return.updated` that the store adds (`store/return-store.ts`).
 *
 * @throws DomainError INVALID_ARGUMENT; NOT_FOUND (return, or a line item of another return); IDEMPOTENCY_CONFLICT;
 *   RETURN_TOO_LARGE; STATE_FORBIDS when the return is closed or cancelled.
 */
export async function recordLabel(store: ReturnStore, request: RecordLabelRequest): Promise<Label> {
  const input = parseInput(newLabel, request);
  const use = {
    shopId: input.shopId,
    operation: 'RecordLabel',
    key: input.idempotencyKey,
    hash: requestHash(RecordLabelRequestSchema, request),
  };
  return store.inTransaction(input.shopId, async (tx) => {
    const { id: labelId } = await oncePerKey(tx, use, () => addLabel(store, tx, input));
    return existing(store, tx, { ...input, labelId });
  });
}

async function existing(
  store: ReturnStore,
  db: Queryable,
  { shopId, labelId }: { readonly shopId: bigint; readonly labelId: bigint },
): Promise<Label> {
  const label = await store.loadLabel(db, shopId, labelId);
  if (!label) throw labelNotFound();
  return label;
}

function labelNotFound(): DomainError {
  return new DomainError(Code.NotFound, ErrorReason.LABEL_NOT_FOUND, 'no such label');
}

async function addLabel(store: ReturnStore, tx: pg.PoolClient, input: NewLabel): Promise<bigint> {
  const { value } = await store.changeIn(
    tx,
    { ...input, addsInput: true },
    async (inside, current) => {
      if (!isOpenOrInReview(current.state) && current.state !== ReturnState.EXPIRED) {
        throw stateForbids(`the return is ${stateText.toText(current.state)}`);
      }
      const labelId = await insertLabel(inside, current, input);
      await fulfilOpenRequest(inside, current);
      const label = await existing(store, inside, { ...input, labelId });
      const facts = { label_id: `${labelId}`, carrier: label.carrier, status: statusOf(label) };
      const text = `A label of ${label.carrier} was added`;
      const reopened = await reopeningBy(inside, current, label);
      return {
        value: labelId,
        stateChanges: reopened.stateChanges,
        events: [labelEvent('label.created', label)],
        timeline: [
          { returnId: current.id, kind: 'label.created', text, facts },
          ...reopened.timeline,
        ],
      };
    },
  );
  return value;
}

async function insertLabel(tx: Queryable, current: Return, input: NewLabel): Promise<bigint> {
  const lines = current.lineItems.map((line) => line.lineItemId);
  if (input.lineItemIds.some((lineItemId) => !lines.includes(lineItemId))) {
    throw lineItemNotFound('line_item_ids');
  }
  const createdAt = input.createdAt ? pastTime('created_at', input.createdAt) : new Date();
  // Without a time, the label may be older than the call, and the carrier may have moved the parcel before the call.
  const isUnheard = !input.createdAt && input.status === LabelStatus.NEW;
  const of = input.lineItemIds.length > 0 ? [...new Set(input.lineItemIds)] : lines;
  const created = param(createdAt);
  const { rows } = await tx.query<{ id: bigint }>(
    unnamed(sql`
insert into labels (shop_id, return_id, carrier, tracking_number, url, rate, status, line_item_ids,
                    created_at, updated_at, heard_at)
values (${current.shopId}, ${current.id}, ${input.carrier}, ${input.trackingNumber}, ${input.url},
        ${rateOf(input.rate, current.currency)}, ${labelStatusText.toText(input.status)}, ${of},
        ${created}, ${created},
        case when ${isUnheard} then '-infinity' else date_trunc('second', ${created}::timestamptz) end)
returning id`),
  );
  if (!rows[0]) throw new Error('a label was not stored');
  return rows[0].id;
}

function rateOf(rate: string, currency: string): string | null {
  return rate === '' ? null : formatAmount(parseAmount('rate', rate, currency), currency);
}

function statusOf(label: Label): string {
  return labelStatusText.toText(label.status);
}

function labelEvent(trigger: DetailEvent['trigger'], label: Label): DetailEvent {
  return { trigger, returnId: label.returnId, detail: { case: 'label', value: label } };
}

/** Opens an expired return again when the parcel of one of its labels moves. */
function reopeningBy(tx: Queryable, current: Return, label: Label) {
  if (!isMoving(label.status)) return { stateChanges: [], timeline: [] };
  return reopening(tx, current, `The parcel is ${statusOf(label).replaceAll('_', ' ')}`);
}

const labelUpdate = z.object({
  ...callerShape,
  labelId: id,
  status: z.enum(LabelStatus, 'is unknown'),
  occurredAt: time.optional(),
  trackingNumber: text(SHORT_TEXT_MAX),
});

/**
 * Records a carrier update of a parcel. Updates may arrive in any order. An update is ignored when it is older than the
 * last one, or arrives after `delivered`. An absent status or tracking number keeps its value. When a parcel moves, an
 * expired return opens again. A repeat with the same key changes nothing. The key of an ignored update can be used
 * again.
 *
 * @throws DomainError INVALID_ARGUMENT; LABEL_NOT_FOUND; IDEMPOTENCY_CONFLICT.
 */
export async function updateLabel(
  { pool, store }: { readonly pool: pg.Pool; readonly store: ReturnStore },
  request: UpdateLabelRequest,
): Promise<{ label: Label; ignored: boolean }> {
  const update = parseInput(labelUpdate, request);
  const occurredAt = update.occurredAt && pastTime('occurred_at', update.occurredAt);
  const known = await existing(store, pool, update);
  const by = { ...update, occurredAt, returnId: known.returnId };
  const use = keyUseOf('UpdateLabel', UpdateLabelRequestSchema, request);
  return store.inTransaction(update.shopId, async (tx) => {
    if (await claimKey(tx, use, update.labelId)) {
      const { label, ignored } = await applyUpdate(store, tx, by);
      if (use && ignored) await releaseKey(tx, use);
      return { label, ignored };
    }
    return { label: await existing(store, tx, update), ignored: false };
  });
}

interface CarrierUpdate extends z.output<typeof labelUpdate> {
  readonly occurredAt: Date | undefined;
}

async function applyUpdate(
  store: ReturnStore,
  transaction: pg.PoolClient,
  update: CarrierUpdate & { readonly returnId: bigint },
): Promise<{ label: Label; ignored: boolean }> {
  const { value } = await store.changeIn(transaction, update, async (tx, current) => {
    const applied = await applyCarrierUpdate(tx, update);
    const label = await existing(store, tx, update);
    if (!applied.changed) return { value: { label, ignored: applied.ignored } };
    const facts = { label_id: `${label.id}`, status: statusOf(label) };
    const text = `The label is now ${statusOf(label).replaceAll('_', ' ')}`;
    const reopened = await reopeningBy(tx, current, label);
    return {
      value: { label, ignored: false },
      stateChanges: reopened.stateChanges,
      events: [labelEvent('label.updated', label)],
      timeline: [
        { returnId: label.returnId, kind: 'label.updated', text, facts },
        ...reopened.timeline,
      ],
    };
  });
  return value;
}

/**
 * Writes a carrier update. The column `heard_at` is the time of the last update. An update without a time is never older
 * than the last one, whose time may come from a clock that is ahead. The caller must hold the lock of the return.
 *
 * @returns whether the update was ignored, and whether it changed the label.
 */
async function applyCarrierUpdate(
  tx: Queryable,
  update: CarrierUpdate,
): Promise<{ ignored: boolean; changed: boolean }> {
  const status =
    update.status === LabelStatus.UNSPECIFIED ? '' : labelStatusText.toText(update.status);
  const { rows } = await tx.query<{ changed: boolean }>(
    `with after as (
       select id, coalesce($3::timestamptz, greatest(now(), heard_at)) as heard_at,
              coalesce(nullif($4, ''), status) as status,
              coalesce(nullif($5, ''), tracking_number) as tracking_number,
              (coalesce(nullif($4, ''), status), coalesce(nullif($5, ''), tracking_number))
                is distinct from (status, tracking_number) as changed
         from labels where shop_id = $1 and id = $2
     )
     update labels l
        set status = after.status, tracking_number = after.tracking_number, heard_at = after.heard_at,
            updated_at = case when after.changed then after.heard_at else l.updated_at end
       from after
      where l.shop_id = $1 and l.id = after.id and l.status <> 'delivered' and l.heard_at <= after.heard_at
     returning after.changed`,
    [update.shopId, update.labelId, update.occurredAt ?? null, status, update.trackingNumber],
  );
  return { ignored: rows.length === 0, changed: rows[0]?.changed ?? false };
}

const MOVES: readonly LabelStatus[] = [
  LabelStatus.IN_TRANSIT,
  LabelStatus.OUT_FOR_DELIVERY,
  LabelStatus.DELIVERED,
];

/** Whether the carrier has the parcel, or has delivered it. */
function isMoving(status: LabelStatus): boolean {
  return MOVES.includes(status);
}

/** SQL: the list of the statuses for which {@link isMoving} is true. */
export const MOVING = MOVES.map((status) => `'${labelStatusText.toText(status)}'`).join(', ');
