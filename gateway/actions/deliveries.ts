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

/** A page of what was sent to a subscription that exists, or waits to be; newest event first. */
export function listDeliveries(
  context: ActionContext,
  subscriptionId: bigint,
  query: DeliveriesQuery,
): Promise<ListDeliveriesResponse> {
  const { state, trigger = '', from, to, limit, cursor } = query;
  return context.services.webhooks.listDeliveries({
    ...callerOf(context),
    subscriptionId,
    liveOnly: true,
    states: state ? [STATE.fromText(state)] : [],
    trigger,
    ...(from && { from: timestampFromDate(from) }),
    ...(to && { to: timestampFromDate(to) }),
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
