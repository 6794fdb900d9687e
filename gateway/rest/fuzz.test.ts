import { afterAll, beforeAll, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { openapiDocument } from '../../services/contract/openapi/document.ts';
import { OPERATIONS } from '../../services/contract/operations.ts';
import { propertyNames } from '../../test/kit/arbitrary-request.ts';
import { queriesFor } from '../../test/kit/fuzz-query.ts';
import { FAKE } from '../../test/kit/gateway/fake-objects.ts';
import { type Received, restClient, type Sent } from '../../test/kit/gateway/rest-client.ts';
import { startTestGateway, type TestGateway } from '../../test/kit/gateway/test-gateway.ts';
import { documentedOperations } from '../../test/kit/openapi.ts';

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
const document = openapiDocument('2026-10');
const documented = documentedOperations(document);
const queried = documented.filter(({ query }) => query.length > 0);
/** The names of all properties of all request bodies. */
const fields = fc.constantFrom(
  ...new Set(documented.flatMap(({ body: schema }) => propertyNames(schema, document))),
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

test.each(queried)('no query of $method $path causes a 500', async (of) => {
  const value = fc.oneof(
    fc.string().map((text) => encodeURIComponent(text.toWellFormed())),
    fc.constantFrom('1', 'held', '2026-11-20T10:00:00Z'),
  );
  const loose = fc
    .array(fc.tuple(fc.constantFrom(...of.query.map(({ name }) => name), 'x'), value))
    .map((pairs) => pairs.map(([name, text]) => `${name}=${text}`).join('&'));
  const query = fc.oneof(loose, queriesFor(of, document, [1]));
  const path = of.path.replace('{id}', String(FAKE.webhook));
  await fc.assert(
    fc.asyncProperty(query, async (search) => {
      const { status } = await send({ method: of.method, path: `/api/2026-10${path}?${search}` });
      expect(status).toBeLessThan(500);
    }),
    { numRuns: 300 },
  );
});

test('every operation that reads a query has it in the document', () => {
  const read = OPERATIONS.filter(({ query }) => query).map(({ path }) => path);
  expect(queried.map(({ path }) => path).toSorted()).toEqual(read.toSorted());
});
