import { Code, ConnectError } from '@connectrpc/connect';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { ErrorReason } from '../../proto/gen/rms/common/v1/error_pb.ts';
import type { Operation } from '../../services/contract/operation.ts';
import { OPERATIONS } from '../../services/contract/operations.ts';
import { DomainError } from '../../services/platform/errors.ts';
import { FAKE } from '../../test/kit/gateway/fake-objects.ts';
import { type Received, restClient, type Sent } from '../../test/kit/gateway/rest-client.ts';
import {
  startTestGateway,
  TEST_AUTHOR,
  type TestGateway,
} from '../../test/kit/gateway/test-gateway.ts';
import { VALID_BODIES } from '../../test/kit/gateway/valid-bodies.ts';
import { OWN_404, REJECTED_KEY_CHALLENGE } from '../../test/kit/journeys/expected-errors.ts';
import { newKey } from '../auth/key-format.ts';
import { revokeApiKey } from '../tenancy/api-keys.ts';

let under: TestGateway;
let send: (sent: Sent) => Promise<Received>;

beforeAll(async () => {
  under = await startTestGateway({ FAILED_CREDENTIALS_PER_MINUTE: 100_000 });
  send = restClient(under);
});
afterEach(() => under.resetServices());
afterAll(() => under.stop());

function requestOf(operation: Operation, id = '11'): Sent {
  const query = operation.id === 'getReturnDetails' ? `?return_id=${id}` : '';
  const named = operation.path
    .replace('{id}', id)
    .replace('{delivery_id}', FAKE.delivery)
    .replace('{token}', id === '11' ? FAKE.cartToken : id);
  const path = `/api/v1${named}${query}`;
  const json = VALID_BODIES[operation.id];
  return { method: operation.method, path, ...(json !== undefined && { json }) };
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

  test.each(OPERATIONS)('$id accepts a key with exactly its scope', async (operation) => {
    const key = await under.newKey({ scopes: [operation.scope] });
    const { status } = await send({ ...requestOf(operation), key });
    expect([200, 201, 204, 404]).toContain(status);
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

  test("cannot see another shop's objects", async () => {
    const key = await under.newKey({ shopId: await under.newShop() });
    const response = await send({ path: '/api/v1/warehouse/return/details?return_id=11', key });
    expect(response).toMatchObject({
      status: 404,
      body: { errors: { message: 'No return found with this ID.' } },
    });
  });
});

describe('objects that do not exist', () => {
  const withIds = OPERATIONS.filter(
    ({ path, id }) => path.includes('{') || id === 'getReturnDetails',
  );
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
    expect(response).toMatchObject({ status: 204, text: '', headers: { allow: 'POST, OPTIONS' } });
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
    const response = await send({ path: '/api/v1/warehouse/return/details?return_id=11&x=1&x=2' });
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
