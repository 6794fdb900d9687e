import { Code, ConnectError } from '@connectrpc/connect';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { ErrorReason } from '../../proto/gen/rms/common/v1/error_pb.ts';
import type { Operation } from '../../services/contract/operation.ts';
import { OPERATIONS } from '../../services/contract/operations.ts';
import { scopesOpening } from '../../services/contract/scopes.ts';
import { DomainError } from '../../services/platform/values/errors.ts';
import { FAKE } from '../../test/kit/gateway/fake-objects.ts';
import { type Received, restClient, type Sent } from '../../test/kit/gateway/rest-client.ts';
import {
  startTestGateway,
  TEST_AUTHOR,
  type TestGateway,
} from '../../test/kit/gateway/test-gateway.ts';
import { keyHeader, VALID_BODIES } from '../../test/kit/gateway/valid-bodies.ts';
import { OWN_404, REJECTED_KEY_CHALLENGE } from '../../test/kit/journeys/expected-errors.ts';
import { newKey } from '../auth/key-format.ts';
import { revokeApiKey } from '../tenancy/api-keys.ts';

describe('the errors of an operation', () => {
  let under: TestGateway;
  let send: (sent: Sent) => Promise<Received>;

  beforeAll(async () => {
    under = await startTestGateway({ FAILED_CREDENTIALS_PER_MINUTE: 100_000 });
    send = restClient(under);
  });
  afterEach(() => under.resetServices());
  afterAll(() => under.stop());

  function requestOf(operation: Operation, id = '11'): Sent {
    const order = id === '11' ? '#1001' : `#${id}`;
    const queries: Partial<Record<Operation['id'], string>> = {
      getReturnDetails: `?return_id=${id}`,
      getEligibility: `?order_name=${encodeURIComponent(order)}`,
    };
    const query = queries[operation.id] ?? '';
    const named = operation.path
      .replace('{id}', id)
      .replace('{delivery_id}', FAKE.delivery)
      .replace('{token}', id === '11' ? FAKE.cartToken : id);
    const path = `/api/v1${named}${query}`;
    const json = VALID_BODIES[operation.id];
    const headers = keyHeader(operation);
    const isByOrder = json !== undefined && ('order_name' in json || 'return_id' in json);
    return {
      method: operation.method,
      path,
      headers,
      // JSON leaves out what is undefined.
      ...(json && {
        json: { ...json, ...(isByOrder && { order_name: order, return_id: undefined }) },
      }),
    };
  }

  const UNAUTHORIZED = { errors: 'Unauthorized.' };

  describe('credentials', () => {
    test.each(OPERATIONS)('$id without a credential is 401', async (operation) => {
      const response = await send({ ...requestOf(operation), key: null });
      expect(response).toMatchObject({ status: 401, body: UNAUTHORIZED });
      const challenge = String(response.headers['www-authenticate']);
      expect(challenge).toContain('ApiKey realm="rms"');
      expect(challenge.includes('Bearer')).toBe(operation.credentials === 'bearer-or-api-key');
    });

    test.each(OPERATIONS)('$id with a key without the scope', async (operation) => {
      const key = await under.newKey({ scopes: [] });
      const response = await send({ ...requestOf(operation), key });
      expect(response).toMatchObject(
        operation.forbidden === 'message-403'
          ? { status: 403, body: { message: 'This action is unauthorized.' } }
          : { status: 401, body: UNAUTHORIZED },
      );
    });

    test.each(OPERATIONS)('$id accepts a key with any one of its scopes', async (operation) => {
      for (const scope of scopesOpening(operation)) {
        const key = await under.newKey({ scopes: [scope] });
        const { status } = await send({ ...requestOf(operation), key });
        expect([scope, [200, 201, 204, 404].includes(status)]).toEqual([scope, true]);
      }
    });

    test('rejects malformed, unknown, revoked and expired keys with the same response', async () => {
      const revoked = await under.newKey();
      await revokeApiKey(under.database.pool, { shopId: 1n, keyId: revoked, by: TEST_AUTHOR });
      const expired = await under.newKey({ expiresAt: new Date(Date.now() - 1_000) });
      const wrongSecret = newKey().text.replace(/^rms_.{12}/, under.key.slice(0, 16));
      for (const key of ['x', newKey().text, revoked, expired, wrongSecret, `${under.key}x`]) {
        const response = await send({ path: '/api/v1/cart', json: { cart: [1] }, key });
        expect(response).toMatchObject({ status: 401, body: UNAUTHORIZED });
        expect(response.headers['www-authenticate']).toBe(REJECTED_KEY_CHALLENGE);
      }
    });

    test('reads X-Authorization only, except on webhook operations', async () => {
      const headers = { authorization: 'Bearer nonsense' };
      const cart = await send({ path: '/api/v1/cart', json: { cart: [1] }, headers });
      const webhooks = await send({ path: '/api/v1/webhooks', headers });
      expect(cart.status).toBe(200);
      expect(webhooks).toMatchObject({ status: 401, body: UNAUTHORIZED });
      expect(webhooks.headers['www-authenticate']).toContain('error="invalid_token"');
    });

    test.each(['Basic dXNlcjpwYXNz', 'Negotiate abc', 'Bearerx abc', ''])(
      'an Authorization header of another scheme is ignored: %j',
      async (authorization) => {
        const path = '/api/v1/webhooks';
        expect((await send({ path, headers: { authorization } })).status).toBe(200);
        const alone = await send({ path, key: null, headers: { authorization } });
        expect(alone).toMatchObject({ status: 401, body: UNAUTHORIZED });
        expect(alone.headers['www-authenticate']).not.toContain('error=');
      },
    );
  });

  describe('objects that do not exist', () => {
    const withIds = OPERATIONS.filter(({ notFound }) => notFound !== undefined);
    const ids = [
      '999',
      'abc',
      '0',
      '-1',
      '01',
      '1.0',
      '9007199254740992',
      '%31x',
      '1%2F2',
      '%zz',
      '%00',
    ];

    test.each(withIds)('$id returns the 404 of the operation', async (operation) => {
      for (const id of ids) {
        const response = await send(requestOf(operation, id));
        expect([id, response.status, response.body]).toEqual([id, 404, operation.notFound?.body]);
      }
    });

    test('the 404 bodies are those of the interface', async () => {
      const bodies = Object.fromEntries(withIds.map(({ id, notFound }) => [id, notFound?.body]));
      expect(bodies).toEqual(OWN_404);
    });

    test('a second fraud report is 409', async () => {
      const response = await send({ path: '/api/v1/returns/14/fraud-report', json: {} });
      const body = { errors: { message: expect.any(String) } };
      expect(response).toMatchObject({ status: 409, body });
    });

    test('a path id is percent-decoded once', async () => {
      const path = '/api/v1/warehouse/return/%31%31/process';
      expect(await send({ method: 'POST', path })).toMatchObject({ status: 200, text: 'true' });
      const twice = '/api/v1/warehouse/return/%2531%2531/process';
      expect(await send({ method: 'POST', path: twice })).toMatchObject({ status: 404 });
    });
  });

  describe('paths and methods', () => {
    const shape = { message: expect.any(String), errors: {} };

    test.each([
      '/api',
      '/api/',
      '/api/v1',
      '/api/v1/',
      '/api/v1/webhooks/',
      '/api/v1/Webhooks',
      '/api/v1//webhooks',
      '/api/v1/webhooks/1/2',
      '/api/v1/%zz',
      '/API/v1/webhooks',
      '/api/V1/webhooks',
      '/api/latest/webhooks',
      '/api/v1/v1/webhooks',
      '/apis/v1/webhooks',
      '//api/v1/webhooks',
      '/api/v1%2Fwebhooks',
      '/api/%76%31/%257ebhooks',
      '/nothing',
      '/%',
    ])('%s is 404', async (path) => {
      expect(await send({ path })).toMatchObject({ status: 404, body: shape });
    });

    test.each(['/%61pi/v1/webhooks', '/api/%76%31/webhooks', '/api/2026%2D07/%77ebhooks?x=%zz'])(
      '%s is /api/v1/webhooks: each part is percent-decoded once',
      async (path) => {
        expect((await send({ path })).status).toBe(200);
      },
    );

    test('a method that the path does not have is 405 with Allow, even without a credential', async () => {
      const response = await send({ method: 'PATCH', path: '/api/v1/webhooks/41', key: null });
      expect(response).toMatchObject({ status: 405, body: shape });
      expect(response.headers.allow).toBe('GET, PUT, DELETE, HEAD, OPTIONS');
      expect((await send({ method: 'PUT', path: '/api/v1/webhooks' })).headers.allow).toBe(
        'GET, POST, HEAD, OPTIONS',
      );
    });

    test('OPTIONS is 204 with Allow and without CORS, even without a credential', async () => {
      const headers = { origin: 'https://elsewhere.example.com' };
      const response = await send({ method: 'OPTIONS', path: '/api/v1/cart', key: null, headers });
      expect(response).toMatchObject({
        status: 204,
        text: '',
        headers: { allow: 'POST, OPTIONS' },
      });
      expect(response.headers).not.toHaveProperty('access-control-allow-origin');
    });

    test('HEAD returns the headers of GET without the body', async () => {
      const path = '/api/v1/warehouse/return/details?return_id=11';
      const get = await send({ path });
      const head = await send({ method: 'HEAD', path });
      expect(head).toMatchObject({ status: 200, text: '' });
      expect(head.headers['content-length']).toBe(get.headers['content-length']);
      expect(await send({ method: 'HEAD', path: `${path}9` })).toMatchObject({
        status: 404,
        text: '',
      });
    });
  });

  describe('validation', () => {
    test('reports the field and the reason', async () => {
      const response = await send({
        method: 'PUT',
        path: '/api/v1/destinations/31',
        json: { type: 'x' },
      });
      expect(response).toMatchObject({
        status: 422,
        body: { message: expect.stringMatching(/^(name|type) /), errors: {} },
      });
    });
    test('an unknown line item is 422', async () => {
      const json = { items: [{ line_item_id: 22 }] };
      expect(await send({ path: '/api/v1/dispositioning/assess', json })).toMatchObject({
        status: 422,
        body: {
          message: 'items[0].line_item_id must be the id of an existing line item.',
          errors: {},
        },
      });
    });
    test.each([
      '',
      'return_id=',
      'return_id=11&return_id=11',
      'return_id=11&order_id=1',
      'return_id=11&currency_type=euro',
    ])('query %j is 422', async (query) => {
      expect(await send({ path: `/api/v1/warehouse/return/details?${query}` })).toMatchObject({
        status: 422,
        body: { message: expect.any(String), errors: {} },
      });
    });
    test('an unknown query parameter is ignored', async () => {
      const response = await send({
        path: '/api/v1/warehouse/return/details?return_id=11&x=1&x=2',
      });
      expect(response.status).toBe(200);
    });
  });

  describe('server-side failures', () => {
    test('an unavailable service is 503 with Retry-After and without the cause', async () => {
      under.services.carts.createCart = () => {
        throw new ConnectError('connect ECONNREFUSED 10.1.2.3', Code.Unavailable);
      };
      const response = await send({ path: '/api/v1/cart', json: { cart: [1] } });
      expect(response).toMatchObject({
        status: 503,
        body: { message: expect.any(String), errors: {} },
      });
      expect(response.headers['retry-after']).toMatch(/^[1-9]\d*$/);
      expect(response.text).not.toMatch(/10\.1\.2\.3|ECONN/);
    });
    test('an incompletely created shop is 503, because `shop create` can complete it', async () => {
      under.services.carts.createCart = () => {
        const reason = ErrorReason.SHOP_NOT_CONFIGURED;
        throw new DomainError(Code.FailedPrecondition, reason, 'the shop has no settings');
      };
      const response = await send({ path: '/api/v1/cart', json: { cart: [1] } });
      expect(response.status).toBe(503);
      expect(response.text).not.toContain('settings');
    });
    test('a bug in a service is 500 with the request id and without the cause', async () => {
      under.services.carts.createCart = () => {
        throw new Error('relation "carts" does not exist');
      };
      const response = await send({ path: '/api/v1/cart', json: { cart: [1] } });
      expect(response).toMatchObject({
        status: 500,
        body: { message: expect.any(String), errors: {} },
      });
      expect(response.text).toContain(String(response.headers['x-request-id']));
      expect(response.text).not.toContain('relation');
    });
    test('a response without a required part is 500 as well', async () => {
      under.services.carts.createCart = () => ({});
      expect((await send({ path: '/api/v1/cart', json: { cart: [1] } })).status).toBe(500);
    });
  });
});

describe('a limited caller', () => {
  let under: TestGateway;
  let send: (sent: Sent) => Promise<Received>;
  beforeAll(async () => {
    under = await startTestGateway({ FAILED_CREDENTIALS_PER_MINUTE: 2 });
    send = restClient(under);
  });
  afterEach(() => under.resetServices());
  afterAll(() => under?.stop());

  const CART = '/api/v1/cart';

  /** `r` and `t` of `RateLimit`. */
  function restOf({ headers }: Received): { readonly points: number; readonly seconds: number } {
    const match = /^"requests";r=(\d+);t=(\d+)$/.exec(String(headers.ratelimit));
    if (!match) throw new Error(`no rest in ${headers.ratelimit}`);
    return { points: Number(match[1]), seconds: Number(match[2]) };
  }

  describe('the headers of the rate limit', () => {
    test('are in every answer to an accepted credential, and count down to a 429', async () => {
      const key = await under.newKey({ restPerMinute: 3 });
      const ask = [
        () => send({ path: CART, json: { cart: [1] }, key }),
        () => send({ path: CART, json: { cart: 7 }, key }),
        () => send({ path: '/api/v1/warehouse/return/details?return_id=999', key }),
        () => send({ path: CART, json: { cart: [1] }, key }),
      ];
      const answers: Received[] = [];
      for (const one of ask) answers.push(await one());
      expect(answers.map(({ status }) => status)).toEqual([200, 422, 404, 429]);
      for (const { headers } of answers) {
        expect(headers['ratelimit-policy']).toBe('"requests";q=3;w=60');
      }
      const rests = answers.map(restOf);
      expect(rests.map(({ points }) => points)).toEqual([2, 1, 0, 0]);
      for (const { seconds } of rests) {
        expect(seconds).toBeGreaterThanOrEqual(1);
        expect(seconds).toBeLessThanOrEqual(60);
      }
    });

    test('say nothing of the limit of a shop, which is that of ten of its keys', async () => {
      const keys = await Promise.all(
        Array.from({ length: 12 }, () => under.newKey({ restPerMinute: 7 })),
      );
      const ask = (key: string) => send({ path: CART, json: { cart: [1] }, key });
      const statuses: number[] = [];
      for (const key of keys)
        for (let nth = 0; nth < 7; nth += 1) statuses.push((await ask(key)).status);
      expect(statuses.filter((status) => status === 200)).toHaveLength(70);
      const limited = await ask(await under.newKey({ restPerMinute: 7 }));
      expect([limited.status, Number(limited.headers['retry-after']) > 0]).toEqual([429, true]);
      // A key with another limit, and another shop, have all of theirs.
      expect((await ask(await under.newKey({ restPerMinute: 8 }))).status).toBe(200);
    });

    test('count a large body as several requests', async () => {
      const key = await under.newKey({ restPerMinute: 100 });
      const cart = [{ variant_id: 1, text: 'x'.repeat(200_000) }];
      const answer = await send({ path: CART, json: { cart }, key });
      expect([answer.status, restOf(answer).points]).toEqual([200, 96]);
    });

    test('show the limit of a credential that lacks the scope, and do not count it', async () => {
      const key = await under.newKey({ scopes: [], restPerMinute: 5 });
      for (const _ of [1, 2]) {
        const { status, headers } = await send({ path: CART, json: {}, key });
        expect([status, headers['ratelimit-policy'], headers.ratelimit]).toEqual([
          ...[401, '"requests";q=5;w=60', '"requests";r=5;t=60'],
        ]);
      }
    });

    test.each([
      ['an unknown path', 404, { path: '/api/v1/nothing' }],
      ['an unknown version', 404, { path: '/api/2020-01/cart' }],
      ['an unknown method', 405, { path: CART, method: 'PATCH' }],
      ['OPTIONS', 204, { path: CART, method: 'OPTIONS' }],
    ])('are absent while no credential was read: %s', async (_, status, sent) => {
      const answer = await send(sent);
      expect(answer.status).toBe(status);
      expect(answer.headers).not.toHaveProperty('ratelimit');
      expect(answer.headers).not.toHaveProperty('ratelimit-policy');
    });

    test('show the limit of the address without a credential', async () => {
      const headers = { 'x-forwarded-for': '203.0.113.7' };
      const answer = await send({ path: CART, json: {}, key: null, headers });
      expect(answer.status).toBe(401);
      expect(answer.headers['ratelimit-policy']).toBe('"rejected-credentials";q=2;w=60');
      expect(answer.headers.ratelimit).toBe('"rejected-credentials";r=2;t=60');
    });

    test.each([
      ['not JSON', 400, { raw: '{', headers: { 'content-type': 'application/json' } }],
      ['no JSON type', 415, { raw: '{}', headers: { 'content-type': 'text/plain' } }],
      [
        'too large',
        413,
        { raw: ' '.repeat(2 ** 20 + 1), headers: { 'content-type': 'application/json' } },
      ],
    ])('are in the answer to a body that is %s', async (_, status, sent) => {
      const answer = await send({ path: CART, ...sent });
      expect(answer.status).toBe(status);
      expect(restOf(answer).points).toBeGreaterThan(0);
    });

    test('count rejected credentials down to a 429', async () => {
      const wrong = () => send({ path: CART, json: {}, key: 'rms_wrong' });
      const answers = [await wrong(), await wrong(), await wrong()];
      expect(answers.map(({ status }) => status)).toEqual([401, 401, 429]);
      for (const { headers } of answers) {
        expect(headers['ratelimit-policy']).toBe('"rejected-credentials";q=2;w=60');
      }
      const rests = answers.map(({ headers }) => {
        return /^"rejected-credentials";r=(\d);t=(\d+)$/.exec(String(headers.ratelimit));
      });
      expect(rests.map((one) => one?.[1])).toEqual(['1', '0', '0']);
      const seconds = Number(rests[2]?.[2]);
      expect(Number(answers[2]?.headers['retry-after']) - seconds).toBeLessThanOrEqual(1);
      const other = await send({ path: CART, json: {}, key: null });
      expect(other.headers.ratelimit).toMatch(/^"rejected-credentials";r=0;/);
    });
  });

  test.each(['/api/9999-01/webhooks', '/api/v9/webhooks'])(
    'the 404 of %s links to the documentation of a supported version',
    async (path) => {
      const { status, headers } = await send({ path });
      expect(status).toBe(404);
      const links = [...String(headers.link).matchAll(/<([^>]+)>; rel="([\w-]+)"/g)];
      expect(links.map(([, , rel]) => rel)).toEqual(['service-desc', 'service-doc', 'help']);
      for (const [, target = ''] of links) expect((await send({ path: target })).status).toBe(200);
    },
  );
});
