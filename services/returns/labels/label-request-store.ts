import { create, fromJson, type MessageInitShape, toJson } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import type { Destination } from '../../../proto/gen/rms/destinations/v1/destinations_pb.ts';
import {
  type LabelRequest,
  LabelRequestSchema,
  type Return,
} from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import type { Settings } from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { type Queryable, violatedConstraint } from '../../platform/postgres.ts';
import { alreadyOpen } from '../errors.ts';
import type { ReturnRef } from '../return-ref.ts';
import type { DetailEvent } from '../store/append-events.ts';
import { labelRequestStateText } from '../store/texts.ts';

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
export async function findLabelRequest(
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
export interface RequestWithEvent {
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
export async function cancelRequest(
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
