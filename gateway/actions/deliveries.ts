import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import {
  type Delivery,
  DeliveryStateSchema,
  type ListDeliveriesResponse,
} from '../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import type { DeliveriesQuery } from '../../services/contract/resources/deliveries-query.ts';
import { enumText } from '../../services/platform/enum-text.ts';
import { type ActionContext, callerOf, sent } from './context.ts';

const STATE = enumText(DeliveryStateSchema);

/**
 * A page of what was sent to a subscription that exists, or waits to be; newest event first.
 *
 * @param subscriptionId 0 for all of the shop, deleted ones too.
 */
export function listDeliveries(
  context: ActionContext,
  subscriptionId: bigint,
  query: DeliveriesQuery & { readonly returnId?: bigint | undefined },
): Promise<ListDeliveriesResponse> {
  const { state, trigger = '', from, to, limit, cursor, returnId = 0n } = query;
  return context.services.webhooks.listDeliveries({
    ...callerOf(context),
    subscriptionId,
    liveOnly: true,
    states: state ? [STATE.fromText(state)] : [],
    trigger,
    ...(from && { from: timestampFromDate(from) }),
    ...(to && { to: timestampFromDate(to) }),
    returnId,
    pageSize: limit,
    cursor,
  });
}

/** Sends a delivery of a subscription again: same `webhook-id`, same bytes. */
export async function replayDelivery(
  context: ActionContext,
  of: { readonly subscriptionId: bigint; readonly deliveryId: string },
): Promise<Delivery> {
  const { delivery } = await context.services.webhooks.replayDelivery({
    ...callerOf(context),
    ...of,
  });
  return sent(delivery, 'delivery');
}

/** One delivery with its attempts. Rejects when the shop has none with that id. */
export async function getDelivery(context: ActionContext, deliveryId: string): Promise<Delivery> {
  const { webhooks } = context.services;
  const { delivery } = await webhooks.getDelivery({ ...callerOf(context), deliveryId });
  return sent(delivery, 'delivery');
}
