import { afterAll, beforeAll, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { OPERATIONS } from '../../services/contract/operations.ts';
import { FAKE } from '../../test/kit/gateway/fake-objects.ts';
import { type Received, restClient, type Sent } from '../../test/kit/gateway/rest-client.ts';
import { startTestGateway, type TestGateway } from '../../test/kit/gateway/test-gateway.ts';

let under: TestGateway;
let send: (sent: Sent) => Promise<Received>;

beforeAll(async () => {
  under = await startTestGateway();
  send = restClient(under);
});
afterAll(() => under.stop());

const version = fc.constantFrom('/v1', '/2026-07', '/2026-10', '/unstable', '');
const operation = fc.constantFrom(...OPERATIONS);
const id = fc.oneof(
  fc.constantFrom('11', '21', '31', '41', '51'),
  fc.string().map((text) => encodeURIComponent(text.toWellFormed())),
);
const deliveryIds = fc.oneof(
  fc.constant(FAKE.delivery),
  fc.string({ minLength: 1 }).map((text) => encodeURIComponent(text.toWellFormed())),
);
const fields = fc.constantFrom(
  ...['topic', 'trigger', 'url', 'status', 'items', 'line_item_id', 'note', 'images', 'name'],
  ...['type', 'enabled', 'address', 'country_code', 'category', 'comment', 'cart', 'shopify'],
  ...['carrier', 'tracking_number', 'rate', 'line_item_ids', 'created_at', 'occurred_at'],
  ...['category', 'subject', 'title', 'description', 'overlap_hours', 'kind', 'webhook_id'],
  ...['states', 'return_id', 'from', 'to'],
  ...['kind', 'webhook_id', 'states', 'return_id', 'from', 'to'],
);
const body = fc.oneof(
  fc.dictionary(fields, fc.jsonValue()).map((value) => JSON.stringify(value)),
  fc
    .record({ items: fc.array(fc.dictionary(fields, fc.jsonValue())) })
    .map((value) => JSON.stringify(value)),
  fc.json(),
  fc.uint8Array(),
);
/** Header values that HTTP allows. */
const headerText = fc.string({
  unit: fc.integer({ min: 0x20, max: 0x7e }).map((code) => String.fromCharCode(code)),
});
const headers = fc.record(
  {
    'content-type': fc.constantFrom(
      'application/json',
      'application/json; charset=x',
      'text/plain',
    ),
    'content-encoding': fc.constantFrom('identity', 'gzip', 'br'),
    authorization: headerText,
    'idempotency-key': headerText,
    'x-forwarded-for': headerText,
    'x-request-id': headerText,
    traceparent: headerText,
  },
  { requiredKeys: ['content-type'] },
);

test('no body, path or header causes a 500', async () => {
  await fc.assert(
    fc.asyncProperty(
      version,
      operation,
      id,
      body,
      headers,
      deliveryIds,
      async (prefix, one, part, raw, sent, deliveryId) => {
        const named = one.path
          .replace('{id}', part)
          .replace('{delivery_id}', deliveryId)
          .replace('{token}', part);
        const path = `/api${prefix}${named}`;
        const carriesBody = one.method !== 'GET';
        const request = { method: one.method, path, headers: sent, ...(carriesBody && { raw }) };
        const response = await send(request);
        expect(response.status).toBeLessThan(500);
        expect(response.headers['x-request-id']).toBeDefined();
      },
    ),
    { numRuns: 600 },
  );
});

test.each([
  [
    '/warehouse/returns',
    [
      ...['state', 'label_status', 'archived', 'created_from', 'created_to', 'updated_from'],
      ...['updated_to', 'destination_id', 'query', 'sort', 'limit', 'cursor', 'x'],
    ],
  ],
  ['/warehouse/return/details', ['return_id', 'order_id', 'order_name', 'currency_type', 'x']],
  [
    `/webhooks/${FAKE.webhook}/deliveries`,
    ['state', 'trigger', 'from', 'to', 'limit', 'cursor', 'x'],
  ],
])('no query of %s causes a 500', async (of, names) => {
  const value = fc.oneof(fc.string(), fc.constantFrom('1', 'held', '2026-11-20T10:00:00Z'));
  const query = fc.array(fc.tuple(fc.constantFrom(...names), value));
  await fc.assert(
    fc.asyncProperty(query, async (pairs) => {
      const search = pairs.map(
        ([key, value]) => `${key}=${encodeURIComponent(value.toWellFormed())}`,
      );
      const path = `/api/v1${of}?${search.join('&')}`;
      expect((await send({ path })).status).toBeLessThan(500);
    }),
    { numRuns: 300 },
  );
});
