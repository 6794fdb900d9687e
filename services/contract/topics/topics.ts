import { z } from 'zod';
import type { Event } from '../../../proto/gen/rms/events/v1/events_pb.ts';
import {
  LabelStatusSchema,
  type Return,
  ReturnStateSchema,
} from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { returnDetailsFields, returnDetailsView } from '../details/return-details.ts';
import { means, nullableId, nullableText, time } from '../resources/response-fields.ts';
import { idNumber, iso, textOrNull, word } from '../views/values.ts';
import {
  LABEL_STATUSES,
  RETURN_STATES,
  RETURN_TRIGGERS,
  type Topic,
  type Trigger,
} from '../vocabulary.ts';
import { labelRequest } from './label-request.ts';
import { known, order, orderOf, returnId, shopId, type TopicShape } from './topic.ts';

/** The topics of webhooks and what each delivers (interface: Events). */
export const TOPIC_SHAPES: Readonly<Record<Topic, TopicShape>> = {
  return: {
    about: 'The whole return: items, amounts, labels, dispositions, customer.',
    triggers: RETURN_TRIGGERS,
    schema: { shop_id: shopId, ...returnDetailsFields },
    build: (event, snapshot) =>
      snapshot && { shop_id: Number(event.shopId), ...returnDetailsView(snapshot) },
  },

  'return.processing': {
    about: 'Why the processing of a return failed.',
    triggers: ['return.processing.failed'],
    schema: {
      return_id: returnId,
      return_state: means(
        z.enum(RETURN_STATES).nullable(),
        'State of the return, which can be processed again while it is `open`',
      ),
      message: means(
        nullableText(),
        'Why processing failed, for people; may be generic or null, and is no stable code',
      ),
      source: known(
        nullableText(),
        'Who requested processing: `warehouse` REST, `admin` portal, `api` MCP and gRPC',
      ),
    },
    build({ detail, returnId: id }, snapshot) {
      if (detail.case !== 'processingFailed') return undefined;
      return {
        return_id: Number(id),
        return_state: snapshot ? word(ReturnStateSchema, snapshot.state, RETURN_STATES) : null,
        message: detail.value.message ?? null,
        source: textOrNull(detail.value.source),
      };
    },
  },

  label: {
    about: 'A shipping label with its carrier and tracking number.',
    triggers: ['label.created', 'label.updated'],
    schema: {
      shop_id: shopId,
      return_id: returnId,
      ...order,
      carrier: known(nullableText(), 'Name of the carrier'),
      tracking_number: means(nullableText(), 'Tracking number; null when there is none yet'),
      label_status: means(z.enum(LABEL_STATUSES).nullable(), 'Where the parcel is'),
      label_updated_at: means(
        time(),
        'When the carrier last changed the status or the tracking number',
      ),
      label_url: means(nullableText(), 'Link to the label; null without one'),
    },
    build(event, snapshot) {
      if (event.detail.case !== 'label') return undefined;
      const label = event.detail.value;
      return {
        shop_id: Number(event.shopId),
        return_id: Number(event.returnId),
        ...orderOf(snapshot),
        carrier: textOrNull(label.carrier),
        tracking_number: textOrNull(label.trackingNumber),
        label_status: word(LabelStatusSchema, label.status, LABEL_STATUSES),
        label_updated_at: iso(label.updatedAt),
        label_url: textOrNull(label.url),
      };
    },
  },

  restock: {
    about: 'The items that go back to stock, and where.',
    triggers: ['restock.requested'],
    schema: {
      id: returnId,
      ...order,
      restock_items: means(
        z.array(
          z.object({
            line_item_id: means(z.int(), 'The line item'),
            location_id: known(
              nullableId(),
              'Identifier of the location at the commerce provider that takes the goods',
            ),
            variant_id: known(nullableId(), 'Identifier of the variant at the commerce provider'),
            quantity: means(z.int().min(1), 'Number of units'),
          }),
        ),
        'The goods that go back to stock',
      ),
    },
    build({ detail, returnId: id }, snapshot) {
      if (detail.case !== 'restock') return undefined;
      const items = detail.value.items.map((item) => ({
        line_item_id: Number(item.lineItemId),
        location_id: idNumber(item.locationId),
        variant_id: idNumber(item.variantId),
        quantity: item.quantity,
      }));
      return { id: Number(id), ...orderOf(snapshot), restock_items: items };
    },
  },

  'label.request': labelRequest,

  giftcard: {
    about: 'The amount and the recipient of a gift card to issue.',
    triggers: ['giftcard.requested'],
    schema: {
      id: means(z.int(), 'Identifier of the request, as in the response of record gift card'),
      return_id: means(z.int(), 'The return that the card is for'),
      amount: means(nullableText(), 'Value of the card, a decimal number as text in `currency`'),
      currency: means(nullableText(), 'Currency that the shopper paid in, an ISO 4217 code'),
      email: known(nullableText(), "The shopper's e-mail address"),
      first_name: known(nullableText(), "The shopper's given name"),
      last_name: known(nullableText(), "The shopper's family name"),
      order_id: order.order_id,
      order_name: known(nullableText(), 'Name of the order, such as `#1001`'),
    },
    build({ detail, returnId: id }, snapshot) {
      if (detail.case !== 'giftCard') return undefined;
      const { id: cardId, money } = detail.value;
      return {
        id: Number(cardId),
        return_id: Number(id),
        amount: textOrNull(money?.value),
        currency: textOrNull(money?.currency),
        email: textOrNull(snapshot?.customer?.email),
        first_name: textOrNull(snapshot?.customer?.firstName),
        last_name: textOrNull(snapshot?.customer?.lastName),
        order_id: idNumber(snapshot?.order?.id ?? 0n),
        order_name: textOrNull(snapshot?.order?.name),
      };
    },
  },

  'partner.returns.shipment': {
    about: 'A shipment of returns that a partner processed.',
    triggers: ['shipment.processed'],
    schema: {
      shipment_id: means(z.int(), 'Identifier of the shipment in this service'),
      partner_shipment_id: means(z.string(), 'Identifier of the shipment at the partner'),
      return_ids: means(z.array(z.int()), 'The returns that have goods in it, ascending'),
      processed_at: means(time(), 'When the partner processed it'),
    },
    build({ detail }) {
      if (detail.case !== 'shipment') return undefined;
      const { id, partnerShipmentId, returnIds, processedAt } = detail.value;
      return {
        shipment_id: Number(id),
        partner_shipment_id: partnerShipmentId,
        return_ids: returnIds.map(Number),
        processed_at: iso(processedAt),
      };
    },
  },
};

/**
 * Whether a subscription to this topic and trigger gets deliveries. It gets none when the events of the trigger lack
 * the data for the topic's payload.
 */
export function delivers(topic: string, trigger: string): boolean {
  return triggersOf(topic).some((one) => one === trigger);
}

/** The triggers whose events a topic delivers. */
export function triggersOf(topic: string): readonly Trigger[] {
  return shapeNamed(topic)?.triggers ?? [];
}

/**
 * The payload of `topic` for an event, in the newest form. `shapePayload` converts it to a shop's version.
 *
 * @param snapshot the return in the event, or the stored one when it was too large for the event.
 * @returns undefined when the event lacks the data for this topic.
 */
export function payloadOf(
  topic: string,
  event: Event,
  snapshot: Return | undefined,
): object | undefined {
  if (!delivers(topic, event.trigger)) return undefined;
  const fields = shapeNamed(topic)?.build(event, snapshot);
  return fields && { topic, trigger: event.trigger, ...fields };
}

function shapeNamed(topic: string): TopicShape | undefined {
  return Object.entries(TOPIC_SHAPES).find(([name]) => name === topic)?.[1];
}
