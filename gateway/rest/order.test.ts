import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { type Received, restClient, type Sent } from '../../test/kit/gateway/rest-client.ts';
import { startTestGateway, type TestGateway } from '../../test/kit/gateway/test-gateway.ts';

let under: TestGateway;
let send: (sent: Sent) => Promise<Received>;

beforeAll(async () => {
  under = await startTestGateway();
  send = restClient(under);
});
afterAll(() => under.stop());

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
