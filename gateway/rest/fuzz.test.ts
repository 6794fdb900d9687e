import { afterAll, beforeAll, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { OPERATIONS } from '../../services/contract/operations.ts';
import { type Received, restClient, type Sent } from '../../test/support/gateway/rest-client.ts';
import { startTestGateway, type TestGateway } from '../../test/support/gateway/test-gateway.ts';

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
  fc.constantFrom('11', '21', '31', '41'),
  fc.string().map((text) => encodeURIComponent(text.toWellFormed())),
);
const fields = fc.constantFrom(
  ...['topic', 'trigger', 'url', 'status', 'items', 'line_item_id', 'note', 'images', 'name'],
  ...['type', 'enabled', 'address', 'country_code', 'category', 'comment', 'cart', 'shopify'],
);
const body = fc.oneof(
  fc.dictionary(fields, fc.jsonValue()).map((value) => JSON.stringify(value)),
  fc
    .record({ items: fc.array(fc.dictionary(fields, fc.jsonValue())) })
    .map((value) => JSON.stringify(value)),
  fc.json(),
  fc.uint8Array(),
);
/** Header values that HTTP can carry at all. */
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
    'x-forwarded-for': headerText,
    'x-request-id': headerText,
    traceparent: headerText,
  },
  { requiredKeys: ['content-type'] },
);

test('no body, path or header makes it fail', async () => {
  await fc.assert(
    fc.asyncProperty(
      version,
      operation,
      id,
      body,
      headers,
      async (prefix, one, part, raw, sent) => {
        const path = `/api${prefix}${one.path.replace('{id}', part)}`;
        const carriesBody = one.method !== 'GET';
        const request = { method: one.method, path, headers: sent, ...(carriesBody && { raw }) };
        const answer = await send(request);
        expect(answer.status).toBeLessThan(500);
        expect(answer.headers['x-request-id']).toBeDefined();
      },
    ),
    { numRuns: 600 },
  );
});

test('no query makes it fail', async () => {
  const name = fc.constantFrom('return_id', 'order_id', 'order_name', 'currency_type', 'x');
  const query = fc.array(fc.tuple(name, fc.string()));
  await fc.assert(
    fc.asyncProperty(query, async (pairs) => {
      const search = pairs.map(
        ([key, value]) => `${key}=${encodeURIComponent(value.toWellFormed())}`,
      );
      const path = `/api/v1/warehouse/return/details?${search.join('&')}`;
      expect((await send({ path })).status).toBeLessThan(500);
    }),
    { numRuns: 300 },
  );
});
