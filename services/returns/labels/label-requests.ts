import { create, fromJson, type MessageInitShape, toJson } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import { Code } from '@connectrpc/connect';
import type pg from 'pg';
import { z } from 'zod';
import { ErrorReason } from '../../../proto/gen/rms/common/v1/error_pb.ts';
import type { Destination } from '../../../proto/gen/rms/destinations/v1/destinations_pb.ts';
import {
  type LabelRequest,
  LabelRequestSchema,
  type Return,
} from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import {
  type CancelLabelRequestRequest,
  CancelLabelRequestRequestSchema,
  LabelProvider,
  type RequestLabelRequest,
  RequestLabelRequestSchema,
  type Settings,
} from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { type Queryable, violatedConstraint } from '../../platform/postgres/postgres.ts';
import { DomainError, stateForbids } from '../../platform/values/errors.ts';
import { claimKey, keyUseOf, oncePerKey } from '../../platform/values/idempotency.ts';
import { callerShape, id, parseInput } from '../../platform/values/input.ts';
import { type Destinations, destinationOf } from '../destinations.ts';
import { alreadyOpen, returnNotFound } from '../errors.ts';
import type { ReturnRef } from '../return.ts';
import { isOpenOrInReview } from '../return.ts';
import { loadSettings } from '../settings.ts';
import type { DetailEvent } from '../store/append-events.ts';
import type { ReturnStore } from '../store/return-store.ts';
import { labelRequestStateText } from '../store/texts.ts';

interface LabelRequestDeps {
  readonly pool: pg.Pool;
  readonly store: ReturnStore;
  readonly destinations: Destinations;
}

const labelInput = z.object({ ...callerShape, returnId: id });

/**
 * Requests a label from the shop's third-party provider.
 *
 * @throws DomainError NOT_FOUND; FAILED_PRECONDITION when the shop makes its own labels, or the return is neither open
 *   nor in review; ALREADY_EXISTS when a label request is open, or the key was used with other content.
 */
export async function requestLabel(
  { pool, store, destinations }: LabelRequestDeps,
  request: RequestLabelRequest,
): Promise<LabelRequest> {
  const by = parseInput(labelInput, request);
  const settings = await loadSettings(pool, by.shopId);
  const known = await store.load(pool, by.shopId, by.returnId);
  if (!known) throw returnNotFound();
  const destination = await destinationOf(destinations, by, known.destinationId);
  const o = { by, settings, destination };
  const use = keyUseOf('RequestLabel', RequestLabelRequestSchema, request);
  return store.inTransaction(by.shopId, async (tx) => {
    const { id: requestId } = await oncePerKey(tx, use, () => issue(store, tx, o));
    return existing(tx, by.shopId, requestId);
  });
}

async function issue(
  store: ReturnStore,
  transaction: pg.PoolClient,
  o: Parameters<typeof issueLabelRequest>[2] & { readonly by: z.output<typeof labelInput> },
): Promise<bigint> {
  const { by, settings, destination } = o;
  const { value } = await store.changeIn(transaction, by, async (tx, current) => {
    if (settings.labelProvider !== LabelProvider.THIRD_PARTY) {
      throw stateForbids('the shop makes its own labels');
    }
    if (!isOpenOrInReview(current.state))
      throw stateForbids('the return is neither open nor in review');
    const issued = await issueLabelRequest(tx, current, { settings, destination });
    const text = 'A label was requested';
    return {
      value: issued.request.id,
      events: [issued.event],
      timeline: [{ returnId: current.id, kind: 'label.request.issued', text }],
    };
  });
  return value;
}

const cancellation = z.object({ ...callerShape, requestId: id });

/**
 * Cancels an open label request.
 *
 * @throws DomainError NOT_FOUND; IDEMPOTENCY_CONFLICT; FAILED_PRECONDITION when it is not open.
 */
export async function cancelLabelRequest(
  store: ReturnStore,
  request: CancelLabelRequestRequest,
): Promise<LabelRequest> {
  const input = parseInput(cancellation, request);
  const use = keyUseOf('CancelLabelRequest', CancelLabelRequestRequestSchema, request);
  return store.inTransaction(input.shopId, async (tx) => {
    const isFirst = await claimKey(tx, use, input.requestId);
    const known = await existing(tx, input.shopId, input.requestId);
    if (!isFirst) return known;
    const { returnId } = known;
    const { value } = await store.changeIn(tx, { ...input, returnId }, async (inside, current) => {
      const cancelled = await cancelRequest(inside, input.shopId, input.requestId);
      if (!cancelled) throw stateForbids('the label request is not open');
      const text = 'The label request was cancelled';
      return {
        value: cancelled.request,
        events: [cancelled.event],
        timeline: [{ returnId: current.id, kind: 'label.request.cancelled', text }],
      };
    });
    return value;
  });
}

async function existing(db: Queryable, shopId: bigint, requestId: bigint): Promise<LabelRequest> {
  const found = await findLabelRequest(db, shopId, requestId);
  if (found) return found;
  throw new DomainError(
    Code.NotFound,
    ErrorReason.LABEL_REQUEST_NOT_FOUND,
    'no such label request',
  );
}

const MAX_WEIGHT_G = 2 ** 31 - 1;

interface LabelRequestRow {
  readonly shop_id: bigint;
  readonly id: bigint;
  readonly return_id: bigint;
  readonly state: string;
  readonly created_at: Date;
  readonly content: object | null;
}

const COLUMNS = 'shop_id, id, return_id, state, created_at, content';

function toLabelRequest(row: LabelRequestRow): LabelRequest {
  const request = fromJson(LabelRequestSchema, { ...row.content }, { ignoreUnknownFields: true });
  request.id = row.id;
  request.returnId = row.return_id;
  request.shopId = row.shop_id;
  request.state = labelRequestStateText.fromText(row.state);
  request.createdAt = timestampFromDate(row.created_at);
  return request;
}

/** The label request with this id; undefined when the shop has none. */
async function findLabelRequest(
  db: Queryable,
  shopId: bigint,
  requestId: bigint,
): Promise<LabelRequest | undefined> {
  const { rows } = await db.query<LabelRequestRow>(
    `select ${COLUMNS} from label_requests where shop_id = $1 and id = $2`,
    [shopId, requestId],
  );
  return rows[0] && toLabelRequest(rows[0]);
}

/** A label request, and the event about its change. */
interface RequestWithEvent {
  readonly request: LabelRequest;
  readonly event: DetailEvent;
}

function withEvent(trigger: DetailEvent['trigger'], row: LabelRequestRow): RequestWithEvent {
  const request = toLabelRequest(row);
  const detail = { case: 'labelRequest' as const, value: request };
  return { request, event: { trigger, returnId: request.returnId, detail } };
}

/**
 * Stores a label request with everything that its provider needs: addresses, parcel (the shop's usual size, and the
 * weight of the line items) and products. The caller must hold the lock of the return.
 *
 * @throws DomainError ALREADY_OPEN when the return has an open label request.
 */
export async function issueLabelRequest(
  tx: Queryable,
  current: Return,
  o: { readonly settings: Settings; readonly destination: Destination | undefined },
): Promise<RequestWithEvent> {
  const content = create(LabelRequestSchema, contentOf(current, o));
  try {
    const { rows } = await tx.query<LabelRequestRow>(
      `insert into label_requests (shop_id, return_id, content) values ($1, $2, $3)
       returning ${COLUMNS}`,
      [current.shopId, current.id, JSON.stringify(toJson(LabelRequestSchema, content))],
    );
    if (!rows[0]) throw new Error('a label request was not stored');
    return withEvent('label.request.issued', rows[0]);
  } catch (error) {
    const open = violatedConstraint(error) === 'label_requests_one_open';
    throw open ? alreadyOpen('a label request') : error;
  }
}

function contentOf(
  current: Return,
  o: { readonly settings: Settings; readonly destination: Destination | undefined },
): MessageInitShape<typeof LabelRequestSchema> {
  const weight = current.lineItems.reduce((sum, line) => sum + line.weightG * line.quantity, 0);
  const origin = current.customer?.address;
  const destination = o.destination?.address;
  return {
    ...(origin && { origin }),
    ...(destination && { destination }),
    parcel: {
      lengthCm: o.settings.parcel?.lengthCm ?? 0,
      widthCm: o.settings.parcel?.widthCm ?? 0,
      heightCm: o.settings.parcel?.heightCm ?? 0,
      weightG: Math.min(weight, MAX_WEIGHT_G),
    },
    products: current.lineItems.map((line) => ({
      name: line.title,
      sku: line.sku,
      hsCode: line.hsCode,
      countryOfOrigin: line.countryOfOrigin,
      price: { value: line.amounts?.price ?? '', currency: current.currency },
    })),
  };
}

/** Ends the open label request of a return, if there is one, because a label was recorded. Publishes no event. */
export async function fulfilOpenRequest(tx: Queryable, current: Return): Promise<void> {
  await tx.query(
    `update label_requests set state = 'fulfilled'
      where shop_id = $1 and return_id = $2 and state = 'open'`,
    [current.shopId, current.id],
  );
}

/**
 * Cancels the open label request of a return, if there is one, because no label is needed any more. The caller must
 * hold the lock of the return.
 *
 * @returns the label.request.cancelled event, which the caller adds to its change.
 */
export async function cancelOpenLabelRequest(tx: Queryable, of: ReturnRef): Promise<DetailEvent[]> {
  const { rows } = await tx.query<LabelRequestRow>({
    name: 'cancel-open-label-request',
    text: `update label_requests set state = 'cancelled'
            where shop_id = $1 and return_id = $2 and state = 'open'
           returning ${COLUMNS}`,
    values: [of.shopId, of.returnId],
  });
  return rows.map((row) => withEvent('label.request.cancelled', row).event);
}

/**
 * Cancels an open label request. The caller must hold the lock of the return.
 *
 * @returns the request and its event; undefined when the request is not open.
 */
async function cancelRequest(
  tx: Queryable,
  shopId: bigint,
  requestId: bigint,
): Promise<RequestWithEvent | undefined> {
  const { rows } = await tx.query<LabelRequestRow>(
    `update label_requests set state = 'cancelled'
      where shop_id = $1 and id = $2 and state = 'open'
     returning ${COLUMNS}`,
    [shopId, requestId],
  );
  return rows[0] && withEvent('label.request.cancelled', rows[0]);
}
