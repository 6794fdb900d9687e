import type {
  Delivery,
  DeliveryHour,
  GetDeliveryResponse,
} from '../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { type ActionContext, callerOf } from './context.ts';

/** Reads a delivery with its payload, its attempts, and the deliveries of the same event to other subscriptions. */
export function getDelivery(
  context: ActionContext,
  deliveryId: string,
): Promise<GetDeliveryResponse> {
  const request = { ...callerOf(context), deliveryId, includeBody: true };
  return context.services.webhooks.getDelivery(request);
}

/** Returns the deliveries of an event. The list is empty when the event is unknown. */
export async function deliveriesOfEvent(
  context: ActionContext,
  eventId: string,
): Promise<Delivery[]> {
  const request = { ...callerOf(context), eventId };
  return (await context.services.webhooks.listDeliveries(request)).deliveries;
}

/**
 * Counts deliveries by hour, oldest first.
 *
 * @param o.subscriptionId 0 for all. @param o.hours 1 to 168; 0 means 24.
 */
export async function deliveryStats(
  context: ActionContext,
  o: { readonly subscriptionId: bigint; readonly hours: number },
): Promise<DeliveryHour[]> {
  const request = { ...callerOf(context), ...o };
  return (await context.services.webhooks.getDeliveryStats(request)).hours;
}

/** Returns the last test event of each subscription in a version; none for a subscription that was not tested in it. */
export async function lastTests(context: ActionContext, version: string): Promise<Delivery[]> {
  const request = { ...callerOf(context), version };
  return (await context.services.webhooks.listLastTests(request)).deliveries;
}
