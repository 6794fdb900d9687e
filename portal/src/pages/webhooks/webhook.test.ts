import { create } from '@bufbuild/protobuf';
import { timestampNow } from '@bufbuild/protobuf/wkt';
import { expect, test } from '@jest/globals';
import {
  SubscriptionSchema,
  SubscriptionStatus,
} from '../../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { healthOf, webhooksText, webhookText } from './webhook.ts';

const plain = { id: 3n, description: '', url: 'https://hooks.example.com:8443/in' };
const described = { ...plain, id: 4n, description: 'webhook 3' };

test('a webhook is named by its number, or by its description with number and host', () => {
  expect(webhookText(plain)).toBe('webhook 3');
  expect(webhookText(plain, { word: 'Webhook', event: 'return.closed' })).toBe(
    'Webhook 3 (return.closed)',
  );
  expect(webhookText(described, { word: 'Webhook' })).toBe(
    'webhook 3 (webhook 4, hooks.example.com:8443)',
  );
  expect(webhookText(described, { event: 'return.closed' })).toBe(
    'webhook 3 (webhook 4, hooks.example.com:8443, return.closed)',
  );
});

test('several are listed as the beginning of a sentence', () => {
  expect(webhooksText([plain])).toBe('Webhook 3');
  expect(webhooksText([plain, described, plain])).toBe(
    'Webhook 3, webhook 3 (webhook 4, hooks.example.com:8443), webhook 3',
  );
});

const NOW = timestampNow();

test.each([
  ['healthy', { counted: 2, delivered: 1 }, {}],
  ['idle', {}, {}],
  ['untried', { countedSince: NOW }, {}],
  ['healthy', { counted: 1, delivered: 1, countedSince: NOW }, {}],
  ['failing', { countedSince: NOW }, { failures: 1 }],
  ['failing', { pausedSince: NOW }, { failures: 20 }],
  ['paused', { pausedSince: NOW }, {}],
  ['inactive', { pausedSince: NOW }, { status: SubscriptionStatus.INACTIVE }],
  [
    'deactivated',
    { countedSince: NOW },
    { status: SubscriptionStatus.INACTIVE, inactiveReason: 'It failed.' },
  ],
])('a webhook is %s with the health %o and %o', (state, health, change) => {
  const status = SubscriptionStatus.ACTIVE;
  expect(healthOf(create(SubscriptionSchema, { status, health, ...change }))).toBe(state);
});
