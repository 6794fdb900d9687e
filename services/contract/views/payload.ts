import type { Event } from '../../../proto/gen/rms/events/v1/events_pb.ts';
import {
  LabelStatusSchema,
  type Return,
  ReturnStateSchema,
} from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { returnDetailsView } from '../details/return-details.ts';
import { LABEL_STATUSES, RETURN_STATES, RETURN_TRIGGERS, type Topic } from '../vocabulary.ts';
import { labelRequestPayload } from './label-request.ts';
import { idNumber, iso, textOrNull, word } from './values.ts';

/** Webhook payloads in the newest shape, built from internal events (interface: Events). */

type Build = (event: Event, snapshot: Return | undefined) => object | undefined;

interface Shape {
  readonly triggers: readonly string[];
  readonly build: Build;
}

const SHAPES: Readonly<Record<Topic, Shape>> = {
  return: {
    triggers: RETURN_TRIGGERS,
    build: (event, snapshot) =>
      snapshot && { shop_id: Number(event.shopId), ...returnDetailsView(snapshot) },
  },
  'return.processing': { triggers: ['return.processing.failed'], build: processingPayload },
  label: { triggers: ['label.created', 'label.updated'], build: labelPayload },
  restock: { triggers: ['restock.requested'], build: restockPayload },
  'label.request': {
    triggers: ['label.request.issued', 'label.request.cancelled'],
    build: labelRequestPayload,
  },
  giftcard: { triggers: ['giftcard.requested'], build: giftCardPayload },
  'partner.returns.shipment': { triggers: ['shipment.processed'], build: shipmentPayload },
};

/**
 * Whether a subscription to this pair gets deliveries: the payload of the topic can be built from the events of the
 * trigger.
 */
export function delivers(topic: string, trigger: string): boolean {
  return triggersOf(topic).includes(trigger);
}

/** The triggers whose events a topic delivers. */
export function triggersOf(topic: string): readonly string[] {
  return shapeOf(topic)?.triggers ?? [];
}

/**
 * The payload of `topic` for an event, in the newest form; `shapePayload` converts it to a shop's version. `snapshot`
 * is that of the event, or the stored one when it was too large for the event. Undefined when this topic cannot be
 * built from this event.
 */
export function payloadOf(
  topic: string,
  event: Event,
  snapshot: Return | undefined,
): object | undefined {
  if (!delivers(topic, event.trigger)) return undefined;
  const fields = shapeOf(topic)?.build(event, snapshot);
  return fields && { topic, trigger: event.trigger, ...fields };
}

function shapeOf(topic: string): Shape | undefined {
  return Object.entries(SHAPES).find(([name]) => name === topic)?.[1];
}

function processingPayload(event: Event, snapshot: Return | undefined): object | undefined {
  const failed = event.detail.case === 'processingFailed' ? event.detail.value : undefined;
  if (!failed) return undefined;
  return {
    return_id: Number(event.returnId),
    return_state: snapshot ? word(ReturnStateSchema, snapshot.state, RETURN_STATES) : null,
    message: failed.message ?? null,
    source: textOrNull(failed.source),
  };
}

function labelPayload(event: Event, snapshot: Return | undefined): object | undefined {
  const label = event.detail.case === 'label' ? event.detail.value : undefined;
  if (!label) return undefined;
  return {
    shop_id: Number(event.shopId),
    return_id: Number(event.returnId),
    order_id: idNumber(snapshot?.order?.id ?? 0n),
    provider_order_id: idNumber(snapshot?.order?.providerOrderId ?? 0n),
    carrier: textOrNull(label.carrier),
    tracking_number: textOrNull(label.trackingNumber),
    label_status: word(LabelStatusSchema, label.status, LABEL_STATUSES),
    label_updated_at: iso(label.updatedAt),
    label_url: textOrNull(label.url),
  };
}

function restockPayload(event: Event, snapshot: Return | undefined): object | undefined {
  const restock = event.detail.case === 'restock' ? event.detail.value : undefined;
  if (!restock) return undefined;
  return {
    id: Number(event.returnId),
    order_id: idNumber(snapshot?.order?.id ?? 0n),
    provider_order_id: idNumber(snapshot?.order?.providerOrderId ?? 0n),
    restock_items: restock.items.map((item) => ({
      line_item_id: Number(item.lineItemId),
      location_id: idNumber(item.locationId),
      variant_id: idNumber(item.variantId),
      quantity: item.quantity,
    })),
  };
}

function giftCardPayload(event: Event, snapshot: Return | undefined): object | undefined {
  const card = event.detail.case === 'giftCard' ? event.detail.value : undefined;
  if (!card) return undefined;
  return {
    id: Number(card.id),
    return_id: Number(event.returnId),
    amount: textOrNull(card.money?.value),
    currency: textOrNull(card.money?.currency),
    email: textOrNull(snapshot?.customer?.email),
    first_name: textOrNull(snapshot?.customer?.firstName),
    last_name: textOrNull(snapshot?.customer?.lastName),
    order_id: idNumber(snapshot?.order?.id ?? 0n),
    order_name: textOrNull(snapshot?.order?.name),
  };
}

function shipmentPayload(event: Event): object | undefined {
  const shipment = event.detail.case === 'shipment' ? event.detail.value : undefined;
  if (!shipment) return undefined;
  return {
    shipment_id: Number(shipment.id),
    partner_shipment_id: shipment.partnerShipmentId,
    return_ids: shipment.returnIds.map(Number),
    processed_at: iso(shipment.processedAt),
  };
}
