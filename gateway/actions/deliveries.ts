import { randomUUID } from 'node:crypto';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import {
  type Delivery,
  DeliveryStateSchema,
  type ListDeliveriesResponse,
  type RetryDeliveriesResponse,
} from '../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import type { DeliveriesQuery } from '../../services/contract/resources/delivery.ts';
import { enumText } from '../../services/platform/values/enum-text.ts';
import { type ActionContext, callerOf, sent } from './context.ts';

const STATE = enumText(DeliveryStateSchema);

/**
 * Returns a page of the deliveries of a subscription, newest event first.
 *
 * @param subscriptionId 0 for all subscriptions of the shop, including deleted ones.
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

/**
 * Makes deliveries of an active subscription due now: those that wait for a later attempt.
 *
 * @param o.idempotencyKey at most 200 characters; a repeat with the same key has no effect and returns the same count.
 */
export async function retryDeliveries(
  context: ActionContext,
  o: { readonly subscriptionId: bigint; readonly idempotencyKey: string },
): Promise<RetryDeliveriesResponse> {
  return context.services.webhooks.retryDeliveries({ ...callerOf(context), ...o });
}

/**
 * Sends a delivery of a subscription again, with the same `webhook-id` and the same bytes.
 *
 * @param o.idempotencyKey at most 200 characters; a repeat with the same key sends nothing. Without one, this function
 *   makes a new key.
 */
export async function replayDelivery(
  context: ActionContext,
  o: {
    readonly subscriptionId: bigint;
    readonly deliveryId: string;
    readonly idempotencyKey?: string;
  },
): Promise<Delivery> {
  const { delivery } = await context.services.webhooks.replayDelivery({
    ...callerOf(context),
    // The gRPC client retries a call whose response was lost. The retry must not start a second replay.
    idempotencyKey: randomUUID(),
    ...o,
  });
  return sent(delivery, 'delivery');
}
