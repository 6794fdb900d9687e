import { create } from '@bufbuild/protobuf';
import { describe, expect, test } from '@jest/globals';
import { EventSchema } from '../../../proto/gen/rms/events/v1/events_pb.ts';
import { returnDetailsView } from '../details/return-details.ts';
import { payloadSchema } from '../openapi/document.ts';
import { sampleEvent } from '../sample-event.ts';
import { RETURN_TRIGGERS, TOPICS, type Topic, TRIGGERS, type Trigger } from '../vocabulary.ts';
import { delivers, payloadOf } from './topics.ts';

const sample = (topic: Topic, trigger: Trigger) => {
  const event = sampleEvent(trigger, 3n);
  return payloadOf(topic, event, event.snapshot);
};
const pairs = TOPICS.flatMap((topic) => TRIGGERS.map((trigger) => [topic, trigger] as const));
const time = '2026-07-01T12:00:00+00:00';

describe('the pairs that deliver', () => {
  test('topic return delivers every trigger about one return, the other topics only their own', () => {
    const delivering = pairs.filter(([topic, trigger]) => delivers(topic, trigger));
    expect(delivering.map((pair) => pair.join(' '))).toEqual([
      ...RETURN_TRIGGERS.map((trigger) => `return ${trigger}`),
      'return.processing return.processing.failed',
      'label label.created',
      'label label.updated',
      'restock restock.requested',
      'label.request label.request.issued',
      'label.request label.request.cancelled',
      'giftcard giftcard.requested',
      'partner.returns.shipment shipment.processed',
      'withdrawal withdrawal.received',
    ]);
  });

  test.each(pairs)('%s on %s has a payload exactly if it delivers', (topic, trigger) => {
    const payload = sample(topic, trigger);
    expect(payload !== undefined).toBe(delivers(topic, trigger));
    if (payload) expect(payloadSchema(topic).safeParse(payload).error).toBeUndefined();
  });

  test('unknown topics and triggers never deliver', () => {
    expect(delivers('returns', 'return.closed')).toBe(false);
    expect(delivers('constructor', 'return.closed')).toBe(false);
    const event = create(EventSchema, { trigger: 'items.assessed', shopId: 3n });
    expect(payloadOf('return', event, undefined)).toBeUndefined();
  });

  test('topic return needs a snapshot that the event does not have', () => {
    expect(payloadOf('return', sampleEvent('return.closed', 3n), undefined)).toBeUndefined();
  });
});

describe('payloads', () => {
  test('return: the details, plus shop, topic and trigger', () => {
    const { snapshot } = sampleEvent('return.closed', 3n);
    if (!snapshot) throw new Error('the sample event has no snapshot');
    expect(sample('return', 'return.closed')).toEqual({
      topic: 'return',
      trigger: 'return.closed',
      shop_id: 3,
      ...returnDetailsView(snapshot),
    });
  });

  test('return.processing', () => {
    expect(sample('return.processing', 'return.processing.failed')).toEqual({
      topic: 'return.processing',
      trigger: 'return.processing.failed',
      return_id: 100000001,
      return_state: 'open',
      message: 'Processing failed.',
      source: 'warehouse',
    });
  });

  test('return.processing without message and source', () => {
    const event = create(EventSchema, {
      trigger: 'return.processing.failed',
      returnId: 7n,
      detail: { case: 'processingFailed', value: {} },
    });
    expect(payloadOf('return.processing', event, undefined)).toMatchObject({
      return_id: 7,
      message: null,
      source: null,
    });
  });

  test('label', () => {
    expect(sample('label', 'label.updated')).toEqual({
      topic: 'label',
      trigger: 'label.updated',
      shop_id: 3,
      return_id: 100000001,
      order_id: 400000001,
      provider_order_id: 1000000000001,
      carrier: 'Example Post',
      tracking_number: 'EX000000001GB',
      label_status: 'new',
      label_updated_at: time,
      label_url: 'https://example.com/labels/300000001.pdf',
    });
  });

  test('restock', () => {
    expect(sample('restock', 'restock.requested')).toEqual({
      topic: 'restock',
      trigger: 'restock.requested',
      id: 100000001,
      order_id: 400000001,
      provider_order_id: 1000000000001,
      restock_items: [
        {
          line_item_id: 200000001,
          location_id: 5000000000001,
          variant_id: 4000000000001,
          quantity: 1,
        },
      ],
    });
  });

  test.each(['label.request.issued', 'label.request.cancelled'] as const)(
    'label.request on %s',
    (trigger) => {
      const address = {
        company: '',
        address1: '1 Example Street',
        address2: '',
        city: 'London',
        state: '',
        zip: 'N1 1AA',
        country: 'United Kingdom',
        country_code: 'GB',
      };
      expect(sample('label.request', trigger)).toEqual({
        topic: 'label.request',
        trigger,
        id: 850000001,
        return_id: 100000001,
        shop_id: 3,
        created_at: time,
        addresses: {
          origin: { name: 'Sam Sample', ...address },
          destination: { name: 'Sample warehouse', ...address },
        },
        parcel: { length: 40, width: 30, height: 10, weight: 350 },
        products: [
          {
            name: 'Sample shirt',
            sku: 'SAMPLE-M-BLUE',
            hs_code: '610510',
            country_of_origin: 'PT',
            price: { amount: '40.00', currency: 'GBP' },
          },
        ],
      });
    },
  );

  test('giftcard', () => {
    expect(sample('giftcard', 'giftcard.requested')).toEqual({
      topic: 'giftcard',
      trigger: 'giftcard.requested',
      id: 800000001,
      return_id: 100000001,
      amount: '40.00',
      currency: 'GBP',
      email: 'shopper@example.com',
      first_name: 'Sam',
      last_name: 'Sample',
      order_id: 400000001,
      order_name: '#1001',
    });
  });

  test('partner.returns.shipment', () => {
    expect(sample('partner.returns.shipment', 'shipment.processed')).toEqual({
      topic: 'partner.returns.shipment',
      trigger: 'shipment.processed',
      shipment_id: 900000001,
      partner_shipment_id: 'SAMPLE-SHIPMENT-1',
      return_ids: [100000001],
      processed_at: time,
    });
  });
});

test('two test events have two ids', () => {
  const [one, other] = [sampleEvent('label.created', 3n), sampleEvent('label.created', 3n)];
  expect(one.eventId).not.toBe(other.eventId);
});
