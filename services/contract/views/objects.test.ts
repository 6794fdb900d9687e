import { create } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import { describe, expect, test } from '@jest/globals';
import { CartSchema } from '../../../proto/gen/rms/carts/v1/carts_pb.ts';
import {
  DestinationSchema,
  DestinationType,
} from '../../../proto/gen/rms/destinations/v1/destinations_pb.ts';
import { DispositionRecordSchema } from '../../../proto/gen/rms/dispositions/v1/dispositions_pb.ts';
import { ReportSchema } from '../../../proto/gen/rms/fraud/v1/fraud_pb.ts';
import { DispositionOutcome } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import {
  SubscriptionSchema,
  SubscriptionStatus,
} from '../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { cartView, destinationView, dispositionView, fraudReportView } from './objects.ts';
import { createdWebhookView, webhookFieldsView, webhookView } from './webhook.ts';

const at = timestampFromDate(new Date('2026-07-01T12:00:00.5Z'));
const EMPTY = {
  name: '',
  company: '',
  address1: '',
  address2: '',
  city: '',
  state: '',
  zip: '',
  country: '',
  country_code: '',
};

describe('a destination', () => {
  test('never shows its phone', () => {
    const destination = create(DestinationSchema, {
      id: 4n,
      name: 'Depot',
      type: DestinationType.DONATE,
      enabled: true,
      providerLocationId: 5n,
      address: { city: 'Hull', countryCode: 'GB', country: 'United Kingdom', phone: '123' },
    });
    expect(destinationView(destination)).toEqual({
      id: 4,
      type: 'donate',
      name: 'Depot',
      enabled: true,
      provider_location_id: 5,
      address: { ...EMPTY, city: 'Hull', country: 'United Kingdom', country_code: 'GB' },
    });
  });

  test('without a location or address has null and empty texts', () => {
    const destination = create(DestinationSchema, { id: 4n, type: DestinationType.WAREHOUSE });
    expect(destinationView(destination)).toMatchObject({
      type: 'warehouse',
      enabled: false,
      provider_location_id: null,
      address: EMPTY,
    });
  });
});

describe('a webhook', () => {
  const subscription = create(SubscriptionSchema, {
    id: 9n,
    topic: 'return',
    trigger: 'return.closed',
    url: 'https://a/',
    status: SubscriptionStatus.INACTIVE,
  });

  const shown = {
    id: 9,
    topic: 'return',
    trigger: 'return.closed',
    url: 'https://a/',
    status: 'inactive',
  };

  test('shows what the interface lists', () => {
    expect(webhookFieldsView(subscription)).toEqual(shown);
  });

  test('shows its secret when created, and warns of a pair that never delivers', () => {
    const delivering = { ...subscription, delivers: true };
    const made = { secret: 'whsec_x', payloadVersion: '2026-10', equalSubscriptionIds: [] };
    expect(createdWebhookView(delivering, made)).toEqual({
      ...shown,
      secret: 'whsec_x',
      delivers: true,
      payload_version: '2026-10',
      warnings: [],
    });
    const never = { ...subscription, topic: 'label' };
    expect(createdWebhookView(never, made)).toMatchObject({
      delivers: false,
      warnings: [
        {
          code: 'NEVER_DELIVERS',
          message:
            'Topic label never delivers return.closed. It delivers label.created, label.updated.',
        },
      ],
    });
  });

  test.each([
    [[12n], 'Webhook 12 has the same address, topic and trigger', 'twice while both'],
    [[12n, 13n], 'Webhooks 12, 13 have', '3 times while all'],
    [[1n, 2n, 3n, 4n, 5n, 6n, 7n], 'Webhooks 1, 2, 3, 4, 5 and 2 more have', '8 times'],
  ])('warns of equal ones when created: %p', (equal, who, times) => {
    const made = { secret: 'whsec_x', payloadVersion: '2026-10', equalSubscriptionIds: equal };
    const delivering = { ...subscription, delivers: true };
    const { warnings } = createdWebhookView(delivering, made);
    expect(warnings).toEqual([{ code: 'DUPLICATE', message: expect.stringContaining(who) }]);
    expect(warnings[0]?.message).toContain(times);
  });

  const at24h = { counted: 3, delivered: 2, payloadVersion: '2026-10' };
  const active = {
    id: 9n,
    topic: 'return',
    trigger: 'return.closed',
    url: 'https://a/',
    delivers: true,
    status: SubscriptionStatus.ACTIVE,
    createdAt: at,
    updatedAt: at,
    health: at24h,
  };

  test('shows how its deliveries fare', () => {
    const time = '2026-07-01T12:00:00+00:00';
    expect(webhookView(create(SubscriptionSchema, active))).toEqual({
      ...shown,
      status: 'active',
      delivers: true,
      payload_version: '2026-10',
      health: 'healthy',
      success_rate_24h: 0.6666,
      failures: 0,
      failing_since: null,
      disables_at: null,
      oldest_waiting_at: null,
      inactive_since: null,
      inactive_reason: null,
      created_at: time,
      updated_at: time,
    });
  });

  test.each([
    ['failing', { failures: 1 }],
    ['paused', { failures: 20, health: { ...at24h, pausedSince: at } }],
    ['inactive', { failures: 20, status: SubscriptionStatus.INACTIVE }],
  ])('is %s', (health, change) => {
    const view = webhookView(create(SubscriptionSchema, { ...active, ...change }));
    expect(view).toMatchObject({ health });
  });

  test('has no rate when nothing was attempted', () => {
    const health = { payloadVersion: '2026-10' };
    const view = webhookView(create(SubscriptionSchema, { ...active, health }));
    expect(view.success_rate_24h).toBeNull();
  });
});

test('a disposition is returned in UTC', () => {
  const record = create(DispositionRecordSchema, {
    lineItemId: 6n,
    disposition: { outcome: DispositionOutcome.RESALE_HOLD, note: '', inspectedAt: at },
  });
  expect(dispositionView(record)).toEqual({
    line_item_id: 6,
    disposition_outcome: 'resale_hold',
    return_processor: null,
    note: '',
    inspected_at: '2026-07-01T12:00:00+00:00',
  });
});

test('a fraud report without category and comment has nulls', () => {
  const report = create(ReportSchema, { id: 1n, returnId: 2n, createdAt: at });
  expect(fraudReportView(report)).toEqual({
    id: 1,
    return_id: 2,
    category: null,
    comment: null,
    created_at: '2026-07-01T12:00:00+00:00',
  });
});

describe('a cart', () => {
  const entries = [
    { variantId: 7n, objectJson: '' },
    { variantId: 8n, objectJson: '{"variant_id":8,"__proto__":{"a":null}}' },
  ];

  test('echoes its entries with all keys', () => {
    const view = cartView(create(CartSchema, { token: 't', entries }));
    expect(JSON.stringify(view)).toBe(
      '{"token":"t","data":{"cart":[7,{"variant_id":8,"__proto__":{"a":null}}]}}',
    );
  });

  test('echoes shopify as sent: a text, null, or not at all', () => {
    const data = (init: object) => cartView(create(CartSchema, { token: 't', ...init })).data;
    expect(data({ shopify: '' })).toEqual({ cart: [], shopify: '' });
    expect(data({ shopifyNull: true })).toEqual({ cart: [], shopify: null });
    expect('shopify' in data({})).toBe(false);
  });
});
