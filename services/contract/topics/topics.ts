import { z } from 'zod';
import type { Event } from '../../../proto/gen/rms/events/v1/events_pb.ts';
import {
  type LabelRequest,
  LabelStatusSchema,
  type Return,
  ReturnStateSchema,
} from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { returnDetailsFields, returnDetailsView } from '../details/return-details.ts';
import { destinationAddress } from '../resources/destination.ts';
import { means, nullableId, nullableText, time } from '../resources/response-fields.ts';
import { addressView } from '../views/objects.ts';
import { idNumber, iso, textOrNull, word } from '../views/values.ts';
import {
  LABEL_STATUSES,
  RETURN_STATES,
  RETURN_TRIGGERS,
  type Topic,
  type Trigger,
} from '../vocabulary.ts';

/** A topic of webhooks: the events that it delivers, and the newest form of its payload. */
interface TopicShape {
  /** One sentence about the payload, for the portal and docs/delivery.md. */
  readonly about: string;
  readonly triggers: readonly Trigger[];
  /** The fields of the payload, without `topic` and `trigger`. */
  readonly schema: z.ZodRawShape;
  /** Returns these fields for an event; undefined when the event lacks the data for them. */
  build(event: Event, snapshot: Return | undefined): object | undefined;
}

const shopId = means(z.int(), 'The shop');
const returnId = means(z.int(), 'The return');

/** The fields about the order of a return. */
const order = {
  order_id: means(nullableId(), 'Identifier of the order in this service'),
  provider_order_id: means(
    nullableId(),
    'Identifier of the order at the commerce provider; null when unknown',
  ),
};

function orderOf(snapshot: Return | undefined): object {
  return {
    order_id: idNumber(snapshot?.order?.id ?? 0n),
    provider_order_id: idNumber(snapshot?.order?.providerOrderId ?? 0n),
  };
}

const known = (schema: z.ZodType, what: string) => means(schema, `${what}; null when unknown`);

const place = (what: string) => means(destinationAddress.nullable(), what);
const money = z.object({
  amount: means(nullableText(), 'Price, a decimal number as text; null when unknown'),
  currency: means(nullableText(), 'Currency of the shop, an ISO 4217 code; null when unknown'),
});

/** The topic for third-party label providers. */
const labelRequest: TopicShape = {
  about: 'What a label provider needs to make a label: addresses, parcel, products.',
  triggers: ['label.request.issued', 'label.request.cancelled'],
  schema: {
    id: means(z.int(), 'Identifier of the label request'),
    return_id: means(z.int(), 'The return that needs a label'),
    shop_id: shopId,
    created_at: means(time(), 'When the label was requested'),
    addresses: means(
      z.object({
        origin: place("Where the parcel starts: the shopper's address; null when unknown"),
        destination: place('Where it goes: the destination of the return; null when unknown'),
      }),
      'Where the parcel starts and goes',
    ),
    parcel: means(
      z.object({
        length: means(z.int(), 'Length in centimetres'),
        width: means(z.int(), 'Width in centimetres'),
        height: means(z.int(), 'Height in centimetres'),
        weight: means(z.int(), 'Weight of the goods in grams; 0 when unknown'),
      }),
      'Size of the parcel as the settings of the shop say, and weight of the goods',
    ),
    products: means(
      z.array(
        z.object({
          name: known(nullableText(), 'Title of the product'),
          sku: known(nullableText(), 'Stock keeping unit'),
          hs_code: known(nullableText(), 'Harmonised System code, for customs'),
          country_of_origin: known(nullableText(), 'ISO 3166 code of the country of origin'),
          price: means(money, 'Price of the goods, for customs'),
        }),
      ),
      'The goods in the parcel',
    ),
  },
  build(event) {
    const request = event.detail.case === 'labelRequest' ? event.detail.value : undefined;
    if (!request) return undefined;
    const { parcel } = request;
    return {
      id: Number(request.id),
      return_id: Number(request.returnId),
      shop_id: Number(event.shopId),
      created_at: iso(request.createdAt),
      addresses: {
        origin: request.origin ? addressView(request.origin) : null,
        destination: request.destination ? addressView(request.destination) : null,
      },
      parcel: {
        length: parcel?.lengthCm ?? 0,
        width: parcel?.widthCm ?? 0,
        height: parcel?.heightCm ?? 0,
        weight: parcel?.weightG ?? 0,
      },
      products: request.products.map(productView),
    };
  },
};

function productView(product: LabelRequest['products'][number]): object {
  return {
    name: textOrNull(product.name),
    sku: textOrNull(product.sku),
    hs_code: textOrNull(product.hsCode),
    country_of_origin: textOrNull(product.countryOfOrigin),
    price: {
      amount: textOrNull(product.price?.value),
      currency: textOrNull(product.price?.currency),
    },
  };
}

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

  withdrawal: {
    about: 'A shopper withdrew from a contract, as the shopper declared it.',
    triggers: ['withdrawal.received'],
    schema: {
      id: means(z.int(), 'Identifier of the withdrawal'),
      shop_id: shopId,
      order_name: means(nullableText(), 'Name of the order, as the shopper stated it'),
      name: means(nullableText(), 'Name of the shopper, as stated'),
      email: means(nullableText(), 'E-mail address of the shopper, as stated'),
      declared_at: means(time(), 'When the shopper confirmed it'),
      return_id: means(nullableId(), 'The return that was made of it; null until there is one'),
    },
    build({ detail, shopId: shop }) {
      if (detail.case !== 'withdrawal') return undefined;
      const { id, orderName, name, email, declaredAt, returnId: made } = detail.value;
      return {
        id: Number(id),
        shop_id: Number(shop),
        order_name: textOrNull(orderName),
        name: textOrNull(name),
        email: textOrNull(email),
        declared_at: iso(declaredAt),
        return_id: idNumber(made),
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

/**
 * When the event of each trigger is sent: one sentence for the portal, and sometimes a second text that only
 * docs/delivery.md has.
 */
export const TRIGGER_TEXTS: Readonly<Record<Trigger, readonly [string, string?]>> = {
  'return.created': ['A return is submitted.'],
  'return.updated': [
    'The details of a return changed.',
    'Once for each change that neither submitted nor closed it: edits, labels, gradings, dispositions, flags, cancelling, expiry, opening again. Notes and timeline entries do not count.',
  ],
  'return.closed': ['A return was processed.', 'Its state became `closed`.'],
  'return.processing.failed': [
    'The processing of a return failed permanently.',
    'A new process request continues with the missing steps.',
  ],
  'label.created': ['A shipping label appears.'],
  'label.updated': ['The status or the tracking number of a label changes.'],
  'restock.requested': [
    'Items are to be put back to stock.',
    "A return is processed and the shop's restock mode is `webhook`.",
  ],
  'label.request.issued': [
    'A label is needed from a label provider.',
    "The shop's labels come from a third party. Its response is `POST /returns/{id}/labels`, then `PUT /labels/{id}` for each carrier update.",
  ],
  'label.request.cancelled': [
    'A label that was requested is no longer needed.',
    'The label request was open, and somebody cancelled it, or the return was closed, was cancelled or expired.',
  ],
  'giftcard.requested': [
    'A gift card is to be issued.',
    'A return with gift-card credit is processed and the shop issues its gift cards elsewhere. Its response is `POST /returns/{id}/gift-card`.',
  ],
  'shipment.processed': ['A consolidated shipment of a partner was recorded.'],
  'withdrawal.received': ['A shopper withdrew from a contract on the page of the shop.'],
};
