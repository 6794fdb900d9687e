import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import type {
  Arrival,
  ListExpectedResponse,
  RecordReceiptRequest,
  RecordReceiptResponse,
} from '../../proto/gen/rms/returns/v1/arrivals_pb.ts';
import type { ArrivalBody, ExpectedQuery } from '../../services/contract/resources/arrival.ts';
import { type ActionContext, callerOf } from './context.ts';

/** Returns a page of the line items with units that have not arrived. Rejects with INVALID_ARGUMENT for an invalid cursor. */
export function listExpected(
  context: ActionContext,
  query: ExpectedQuery,
): Promise<ListExpectedResponse> {
  const { updatedSince } = query;
  return context.services.returns.listExpected({
    ...callerOf(context),
    destinationId: query.destinationId ?? 0n,
    trackingNumber: query.trackingNumber,
    orderName: query.orderName,
    sku: query.sku,
    ...(updatedSince && { updatedSince: timestampFromDate(updatedSince) }),
    pageSize: query.limit,
    cursor: query.cursor,
  });
}

/** Records what arrived of one return. Rejects with the errors of the RPC `RecordReceipt`. */
export function recordArrival(
  context: ActionContext,
  body: ArrivalBody,
  idempotencyKey: string,
): Promise<RecordReceiptResponse> {
  const { arrived_at } = body;
  return context.services.returns.recordReceipt({
    ...callerOf(context),
    idempotencyKey,
    return: selectorOf(body),
    destinationId: BigInt(body.destination_id ?? 0),
    ...(arrived_at && { arrivedAt: timestampFromDate(arrived_at) }),
    items: (body.items ?? []).map((item) => ({
      lineItemId: BigInt(item.line_item_id),
      quantity: item.quantity,
      damagedQuantity: item.damaged_quantity ?? 0,
      note: item.note ?? '',
    })),
    unexpected: (body.unexpected ?? []).map((item) => ({
      sku: item.sku ?? '',
      barcode: item.barcode ?? '',
      title: item.title ?? '',
      quantity: item.quantity,
      note: item.note ?? '',
    })),
  });
}

/** The selector of the return. The schema of the body allows exactly one. */
function selectorOf({
  return_id,
  tracking_number,
  order_name,
}: ArrivalBody): RecordReceiptRequest['return'] {
  if (typeof return_id === 'number') return { case: 'returnId', value: BigInt(return_id) };
  if (typeof tracking_number === 'string')
    return { case: 'trackingNumber', value: tracking_number };
  return { case: 'orderName', value: order_name ?? '' };
}

/** Returns the newest arrivals at a return, newest first. Rejects with NOT_FOUND when the shop has no such return. */
export async function listArrivals(context: ActionContext, returnId: bigint): Promise<Arrival[]> {
  const call = { ...callerOf(context), returnId };
  return (await context.services.returns.listArrivals(call)).arrivals;
}
