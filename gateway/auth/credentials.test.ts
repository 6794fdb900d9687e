import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { type Received, restClient, type Sent } from '../../test/kit/gateway/rest-client.ts';
import {
  startTestGateway,
  TEST_AUTHOR,
  type TestGateway,
} from '../../test/kit/gateway/test-gateway.ts';
import { until } from '../../test/kit/until.ts';
import { listApiKeys, revokeApiKey } from '../tenancy/api-keys.ts';
import { newKey } from './key-format.ts';

let under: TestGateway;
let send: (sent: Sent) => Promise<Received>;

beforeAll(async () => {
  under = await startTestGateway();
  send = restClient(under);
});
afterEach(() => under.gateway.resetLimits());
afterAll(() => under.stop());

const CART = { path: '/api/v1/cart', json: { cart: [1] } };
const from = (address: string) => ({ 'x-forwarded-for': address });

/** Repeats a request until the response is as expected, for at most the five seconds of the interface. */
const untilStatus = (status: number, sent: Sent): Promise<unknown> =>
  until(async () => (await send(sent)).status === status, 5_000, 100);

describe('revocation', () => {
  test('is effective within 5 seconds', async () => {
    const key = await under.newKey();
    await untilStatus(200, { ...CART, key });
    await revokeApiKey(under.database.pool, { shopId: 1n, keyId: key, by: TEST_AUTHOR });
    await untilStatus(401, { ...CART, key });
  });
});

describe('failed credentials', () => {
  const failures = async (count: number, sent: Partial<Sent>): Promise<number[]> => {
    const responses = await Promise.all(
      Array.from({ length: count }, () => send({ ...CART, ...sent })),
    );
    return responses.map(({ status }) => status);
  };
  const countOf = (statuses: readonly number[], status: number): number =>
    statuses.filter((other) => other === status).length;

  test('from the 61st in a minute, the response is 429 instead of 401; a valid key still passes', async () => {
    const headers = from('203.0.113.7');
    const statuses = await failures(70, { key: 'bad', headers });
    expect([countOf(statuses, 401), countOf(statuses, 429)]).toEqual([60, 10]);
    const rejected = await send({ ...CART, key: newKey().text, headers });
    expect(rejected).toMatchObject({
      status: 429,
      body: { message: expect.any(String), errors: {} },
    });
    expect(Number(rejected.headers['retry-after'])).toBeGreaterThanOrEqual(1);
    expect((await send({ ...CART, headers })).status).toBe(200);
    await untilStatus(200, { ...CART, key: await under.newKey(), headers });
  });

  test('a rejected token counts like a rejected key', async () => {
    const headers = { ...from('203.0.113.11'), authorization: 'Bearer nonsense' };
    const sent = { path: '/api/v1/webhooks', key: null, headers };
    const responses = await Promise.all(Array.from({ length: 61 }, () => send(sent)));
    expect(
      countOf(
        responses.map(({ status }) => status),
        429,
      ),
    ).toBe(1);
    expect((await send({ ...CART, key: 'bad', headers: from('203.0.113.11') })).status).toBe(429);
  });

  test('a missing credential does not count', async () => {
    const headers = from('203.0.113.8');
    expect(countOf(await failures(80, { key: null, headers }), 401)).toBe(80);
    expect((await send({ ...CART, key: 'bad', headers })).status).toBe(401);
  });

  test('addresses are counted separately, IPv6 by /64', async () => {
    await failures(61, { key: 'bad', headers: from('2001:db8::1') });
    const status = async (address: string) =>
      (await send({ ...CART, key: 'bad', headers: from(address) })).status;
    expect(await status('2001:db8::ffff')).toBe(429);
    expect(await status('2001:db8:0:1::1')).toBe(401);
    expect(await status('203.0.113.9')).toBe(401);
  });

  test('a missing scope does not count', async () => {
    const key = await under.newKey({ scopes: [] });
    const headers = from('203.0.113.10');
    expect(countOf(await failures(70, { key, headers }), 401)).toBe(70);
  });
});

describe('the limit of a key', () => {
  test('is per key, and a reset clears it', async () => {
    const key = await under.newKey({ restPerMinute: 3 });
    const statuses = [];
    for (let at = 0; at < 5; at += 1) statuses.push((await send({ ...CART, key })).status);
    expect(statuses).toEqual([200, 200, 200, 429, 429]);
    await under.gateway.resetLimits();
    expect((await send({ ...CART, key })).status).toBe(200);
  });
});

describe('use of a key', () => {
  test('is written when the gateway stops, or earlier', async () => {
    const other = await startTestGateway();
    await restClient(other)({ path: '/api/v1/webhooks' });
    const { pool } = other.database;
    await other.gateway.stop();
    const [used] = await listApiKeys(pool, 1n);
    expect(used?.lastUsedAt).toBeInstanceOf(Date);
    await other.stop();
  });
});
