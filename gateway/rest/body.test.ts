import { request as httpRequest } from 'node:http';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
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

const CART = '/api/v1/cart';
const PROCESS = '/api/v1/warehouse/return/11/process';
const JSON_TYPE = { 'content-type': 'application/json' };
const SHAPE = { message: expect.any(String), errors: {} };

/** Sends raw bytes, and returns everything that is received until the connection is closed. */
async function exchange(bytes: string): Promise<string> {
  const socket = connect(under.gateway.port, '127.0.0.1');
  socket.write(bytes);
  return text(socket);
}

function head(path: string, lines: readonly string[]): string {
  return [
    `POST ${path} HTTP/1.1`,
    'host: x',
    `x-authorization: ${under.key}`,
    ...lines,
    '',
    '',
  ].join('\r\n');
}

describe('media type', () => {
  test.each(['application/json', 'Application/JSON; charset=utf-8', 'application/json;x=y'])(
    '%s is accepted',
    async (type) => {
      const headers = { 'content-type': type };
      expect((await send({ path: CART, raw: '{"cart":[1]}', headers })).status).toBe(200);
    },
  );
  test.each(['text/plain', 'application/jsonp', 'application/vnd.api+json', ''])(
    '%j is 415',
    async (type) => {
      const response = await send({
        path: CART,
        raw: '{"cart":[1]}',
        headers: { 'content-type': type },
      });
      expect(response).toMatchObject({ status: 415, body: SHAPE });
    },
  );
  test('a missing media type is 415 with a body, and accepted without a body', async () => {
    expect((await send({ path: CART, raw: '{"cart":[1]}' })).status).toBe(415);
    expect(await send({ method: 'POST', path: PROCESS })).toMatchObject({
      status: 200,
      text: 'true',
    });
  });
  test('an empty chunked body counts as absent', async () => {
    const lines = ['transfer-encoding: chunked', 'connection: close'];
    expect(await exchange(`${head(PROCESS, lines)}0\r\n\r\n`)).toMatch(/^HTTP\/1.1 200 .*true$/s);
    expect(await exchange(`${head(PROCESS, lines)}2\r\n{}\r\n0\r\n\r\n`)).toMatch(
      /^HTTP\/1.1 415 /,
    );
  });
  test('an absent body is 422 when one is required', async () => {
    expect(await send({ method: 'POST', path: CART })).toMatchObject({ status: 422, body: SHAPE });
  });
});

describe('encoding', () => {
  test('gzip is decompressed', async () => {
    const headers = { ...JSON_TYPE, 'content-encoding': 'gzip' };
    const response = await send({ path: CART, raw: gzipSync('{"cart":[7]}'), headers });
    expect(response).toMatchObject({ status: 200, body: { data: { cart: [7] } } });
  });
  test('broken gzip is 400, and another encoding is 415', async () => {
    const broken = { ...JSON_TYPE, 'content-encoding': 'gzip' };
    expect(await send({ path: CART, raw: 'not gzip', headers: broken })).toMatchObject({
      status: 400,
      body: SHAPE,
    });
    const other = { ...JSON_TYPE, 'content-encoding': 'br' };
    expect(await send({ path: CART, raw: '{}', headers: other })).toMatchObject({
      status: 415,
      body: SHAPE,
    });
  });
  test('the limit applies after decompression', async () => {
    const headers = { ...JSON_TYPE, 'content-encoding': 'gzip' };
    const bomb = gzipSync(Buffer.alloc(64 * 2 ** 20, ' '));
    expect(await send({ path: CART, raw: bomb, headers })).toMatchObject({
      status: 413,
      body: SHAPE,
    });
  });
});

describe('size', () => {
  test('1 MiB is accepted and one byte more is 413, for any announced length', async () => {
    const padded = (size: number): string => '{"cart":[1]}'.padEnd(size, ' ');
    expect((await send({ path: CART, raw: padded(2 ** 20), headers: JSON_TYPE })).status).toBe(200);
    const over = await send({ path: CART, raw: padded(2 ** 20 + 1), headers: JSON_TYPE });
    expect(over).toMatchObject({ status: 413, body: SHAPE });
    const chunk = `${(2 ** 20 + 1).toString(16)}\r\n${padded(2 ** 20 + 1)}\r\n0\r\n\r\n`;
    const lines = ['content-type: application/json', 'transfer-encoding: chunked'];
    expect(await exchange(`${head(CART, lines)}${chunk}`)).toMatch(/^HTTP\/1.1 413 /);
  });

  test('the largest valid dispositions are accepted: 30 notes of full length, escaped', async () => {
    const note = '\\ud83d\\ude00'.repeat(65_535);
    const items = Array.from(
      { length: 30 },
      (_, at) => `{"line_item_id":${1_000 + at},"note":"${note}"}`,
    );
    const raw = `{"items":[${items.join(',')}]}`;
    const response = await send({ path: '/api/v1/dispositioning/assess', raw, headers: JSON_TYPE });
    expect(response.status).toBe(200);
    expect(response.body).toHaveLength(30);
    expect(response.body).toMatchObject([
      { line_item_id: 1_000, note: '\u{1f600}'.repeat(65_535) },
      ...Array(29).fill({}),
    ]);
  });

  test('a rejected request with a large unread body gets its response, and the connection is closed', async () => {
    const response = await exchange(
      head(CART, ['content-type: application/json', 'content-length: 5000000']) +
        'x'.repeat(5_000_000),
    );
    expect(response).toMatch(/^HTTP\/1.1 413 .*connection: close.*"errors":\{\}\}$/is);
  });

  test('a connection with a small unread body can be reused', async () => {
    const unauthorized = `POST /api/v1/cart HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\n0123456789`;
    const next = 'GET /livez HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n';
    expect(await exchange(`${unauthorized}${next}`)).toMatch(/^HTTP\/1.1 401 .*HTTP\/1.1 200 /s);
  });

  test('100 Continue is sent only after the checks before the body', async () => {
    const post = (key: string): Promise<{ continued: boolean; status: number }> =>
      new Promise((resolve, reject) => {
        let continued = false;
        const req = httpRequest(`${under.gateway.baseUrl}${CART}`, {
          method: 'POST',
          headers: {
            ...JSON_TYPE,
            'x-authorization': key,
            expect: '100-continue',
            'content-length': 12,
          },
        });
        req.on('continue', () => {
          continued = true;
          req.end('{"cart":[1]}');
        });
        req.on('response', (res) => {
          res.resume();
          req.destroy();
          resolve({ continued, status: res.statusCode ?? 0 });
        });
        req.on('error', reject);
        req.flushHeaders();
      });
    expect(await post(under.key)).toEqual({ continued: true, status: 200 });
    expect(await post('bad')).toEqual({ continued: false, status: 401 });
  });
});

describe('JSON', () => {
  const post = (raw: string | Uint8Array): Promise<Received> =>
    send({ path: CART, raw, headers: JSON_TYPE });

  test.each(['', '{', 'nope', '[1]', '"x"', '1', 'true', 'null', '{"cart":[1]} x', "{'cart':[1]}"])(
    '%j is 400 or counts as absent',
    async (raw) => {
      const response = await post(raw);
      expect(response).toMatchObject({ status: raw === '' ? 422 : 400, body: SHAPE });
    },
  );
  test('invalid UTF-8 is 400', async () => {
    const raw = Buffer.concat([
      Buffer.from('{"cart":[1],"x":"'),
      Buffer.from([0xff]),
      Buffer.from('"}'),
    ]);
    expect(await post(raw)).toMatchObject({ status: 400, body: SHAPE });
  });
  test('32 levels are accepted, 33 are 400, and no depth causes a 500', async () => {
    const nested = (levels: number): string =>
      `{"cart":[1],"x":${'['.repeat(levels - 1)}${']'.repeat(levels - 1)}}`;
    expect((await post(nested(32))).status).toBe(200);
    expect(await post(nested(33))).toMatchObject({ status: 400, body: SHAPE });
    expect((await post(nested(500_000))).status).toBe(400);
    expect((await post('['.repeat(1_000_000))).status).toBe(400);
    expect((await post('{"a":'.repeat(200_000))).status).toBe(400);
  });
  test('100,000 entries are accepted, more are 400 before parsing', async () => {
    // The object, its two members and both lists count as well.
    const entries = (count: number): string => `{"cart":[1],"x":[${'[],'.repeat(count)}0]}`;
    expect((await post(entries(49_998))).status).toBe(200);
    expect(await post(entries(49_999))).toMatchObject({ status: 400, body: SHAPE });
    expect((await post(`{"cart":[1],"x":[${'0,'.repeat(100_000)}0]}`)).status).toBe(400);
  });
  test('10,000 exact numbers are accepted, more are 400', async () => {
    const post = (raw: string) => send({ path: CART, raw, headers: JSON_TYPE });
    const cart = (count: number) => `{"cart":[1],"x":[${'1.10,'.repeat(count)}0]}`;
    expect((await post(cart(10_000))).status).toBe(200);
    expect(await post(cart(10_001))).toMatchObject({ status: 400, body: SHAPE });
  });

  test('brackets inside strings do not count', async () => {
    expect((await post(`{"cart":[1],"x":"${'[{\\"'.repeat(100)}"}`)).status).toBe(200);
  });
  test('the last of two equal keys counts', async () => {
    expect((await post('{"cart":"x","cart":[1]}')).status).toBe(200);
  });
  test('keys such as __proto__ have no special meaning', async () => {
    const raw = '{"__proto__":"x","constructor":1,"toString":null}';
    expect((await send({ path: PROCESS, raw, headers: JSON_TYPE })).text).toBe('true');
  });
  test('16 KiB of details are counted as text, independent of JSON escapes', async () => {
    const details = (value: string) =>
      send({ path: PROCESS, raw: JSON.stringify({ k: value }), headers: JSON_TYPE });
    expect((await details('\n'.repeat(16_383))).text).toBe('true');
    const response = await details('\n'.repeat(16_384));
    expect(response.status).toBe(422);
    expect(response.text).toContain('must be at most 16 KiB');
  });
});

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

describe('the order of checks', () => {
  const cart = '/api/v1/cart';
  const none = { scopes: [] as string[] };

  test('unknown version, then path, before the credential', async () => {
    expect((await send({ path: '/api/2020-01/webhooks', key: null })).status).toBe(404);
    expect((await send({ path: '/api/v1/nothing', key: null })).status).toBe(404);
  });
  test('credential before body', async () => {
    expect((await send({ path: cart, raw: '{', key: 'bad' })).status).toBe(401);
    expect((await send({ path: cart, raw: 'x'.repeat(2 ** 21), key: null })).status).toBe(401);
  });
  test('scope before body', async () => {
    const key = await under.newKey(none);
    expect((await send({ path: cart, raw: '{', key })).status).toBe(401);
    const assess = await send({ path: '/api/v1/dispositioning/assess', raw: '{', key });
    expect(assess.status).toBe(403);
  });
  test('scope before rate limit, rate limit before body', async () => {
    const poor = await under.newKey({ ...none, restPerMinute: 1 });
    for (const _ of [1, 2])
      expect((await send({ path: cart, raw: '{', key: poor })).status).toBe(401);
    const key = await under.newKey({ restPerMinute: 1 });
    expect((await send({ path: cart, json: { cart: [1] }, key })).status).toBe(200);
    const limited = await send({ path: cart, raw: '{', key });
    expect(limited).toMatchObject({
      status: 429,
      body: { message: expect.any(String), errors: {} },
    });
    expect(Number(limited.headers['retry-after'])).toBeGreaterThanOrEqual(1);
  });
  test('Content-Type before size, size before JSON, JSON before schema', async () => {
    const big = ' '.repeat(2 ** 20 + 1);
    expect((await send({ path: cart, raw: big })).status).toBe(415);
    const headers = { 'content-type': 'application/json' };
    expect((await send({ path: cart, raw: big, headers })).status).toBe(413);
    expect((await send({ path: cart, raw: '{"cart":7', headers })).status).toBe(400);
    expect((await send({ path: cart, raw: '{"cart":7}', headers })).status).toBe(422);
  });
  test('schema before existence', async () => {
    const path = '/api/v1/destinations/abc';
    expect((await send({ method: 'PUT', path, json: {} })).status).toBe(422);
    expect((await send({ method: 'PUT', path, json: { name: 'x' } })).status).toBe(404);
  });
  test("a webhook's URL after its other fields, before existence", async () => {
    const bad = { topic: 'return', trigger: 'return.closed', url: 'nonsense' };
    for (const path of ['/api/v1/webhooks/999', '/api/v1/webhooks/abc']) {
      const other = await send({ method: 'PUT', path, json: { ...bad, topic: 'x' } });
      const address = await send({ method: 'PUT', path, json: bad });
      expect(other).toMatchObject({
        status: 422,
        body: { message: expect.any(String), errors: {} },
      });
      expect(address).toMatchObject({
        status: 422,
        body: { errors: { code: 'FAILED_TO_CREATE_WEBHOOK', message: expect.any(String) } },
      });
    }
  });
});
