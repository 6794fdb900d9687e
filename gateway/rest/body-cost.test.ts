import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { gzipSync } from 'node:zlib';
import { create } from '@bufbuild/protobuf';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { CustomerSchema } from '../../proto/gen/rms/returns/v1/return_pb.ts';
import { FAKE, sampleReturn } from '../../test/kit/gateway/fake-objects.ts';
import { type Received, restClient, type Sent } from '../../test/kit/gateway/rest-client.ts';
import { startTestGateway, type TestGateway } from '../../test/kit/gateway/test-gateway.ts';
import { untilDayLasts } from '../../test/kit/until.ts';

const KIB = 1024;
const CART = '/api/v1/cart';
const HOOKS = '/api/v1/webhooks';
const JSON_TYPE = { 'content-type': 'application/json' };

let under: TestGateway;
let send: (sent: Sent) => Promise<Received>;

beforeAll(async () => {
  under = await startTestGateway({ SHOP_MIB_PER_DAY: 20 });
  send = restClient(under);
});
afterEach(() => under.gateway.resetLimits());
afterAll(() => under.stop());

/** A valid cart with this number of bytes. */
const cartOf = (bytes: number): string => '{"cart":[1]}'.padEnd(bytes);

/** Sends reads, and returns how many were admitted. */
async function readsLeft(key: string, tries: number): Promise<number> {
  let passed = 0;
  for (let at = 0; at < tries; at += 1) {
    if ((await send({ path: HOOKS, key })).status === 200) passed += 1;
  }
  return passed;
}

describe('a body costs a point of the rate limit for each 64 KiB', () => {
  test.each([
    ['64 KiB', 64 * KIB, 9],
    ['one byte more', 64 * KIB + 1, 8],
    ['300 KiB', 300 * KIB, 5],
  ])('%s', async (_size, bytes, left) => {
    const key = await under.newKey({ restPerMinute: 10 });
    const response = await send({ path: CART, raw: cartOf(bytes), headers: JSON_TYPE, key });
    expect(response.status).toBe(200);
    expect(await readsLeft(key, 12)).toBe(left);
  });

  test.each([
    ['inflated', cartOf(300 * KIB), 200],
    ['no JSON', 'x'.repeat(300 * KIB), 400],
    ['over the limit', cartOf(5_000 * KIB), 413],
  ])('is counted after decompression, for any status: %s', async (_what, text, status) => {
    const key = await under.newKey({ restPerMinute: 10 });
    const headers = { ...JSON_TYPE, 'content-encoding': 'gzip' };
    const response = await send({ path: CART, raw: gzipSync(text), headers, key });
    expect(response.status).toBe(status);
    expect(await readsLeft(key, 12)).toBeLessThanOrEqual(5);
  });

  test.each([
    ['below the limit', 300 * KIB, 422],
    ['over the limit', 1_100 * KIB, 413],
  ])('is counted as sent if it inflates to nothing: %s', async (_what, bytes, status) => {
    const key = await under.newKey({ restPerMinute: 10 });
    const headers = { ...JSON_TYPE, 'content-encoding': 'gzip', 'x-authorization': key };
    // Without a `Content-Length`, so that only the bytes show how many there are.
    const call = request(`${under.gateway.baseUrl}${CART}`, { method: 'POST', headers });
    const empty = gzipSync('');
    for (let sent = 0; sent < bytes; sent += 1_000 * empty.length) {
      call.write(Buffer.concat(new Array(1_000).fill(empty)));
    }
    const [response]: IncomingMessage[] = await once(call.end(), 'response');
    expect(response?.resume().statusCode).toBe(status);
    expect(await readsLeft(key, 12)).toBeLessThanOrEqual(5);
  });

  test('a body that costs more than the remaining points is rejected before it reaches a service', async () => {
    const key = await under.newKey({ restPerMinute: 10 });
    await send({ path: HOOKS, key });
    const raw = cartOf(640 * KIB);
    const rejected = await send({ path: CART, raw, headers: JSON_TYPE, key });
    expect(rejected).toMatchObject({ status: 429, body: { message: expect.any(String) } });
    expect(Number(rejected.headers['retry-after'])).toBeGreaterThanOrEqual(1);
  });

  test('a new window admits any allowed request', async () => {
    const key = await under.newKey({ restPerMinute: 2 });
    const note = '\u{1f4e6}'.repeat(65_535);
    const items = Array.from({ length: 30 }, (_, at) => ({
      line_item_id: Number(FAKE.manyLinesFrom) + at,
      note,
    }));
    const path = '/api/v1/dispositioning/assess';
    expect((await send({ path, json: { items }, key })).status).toBe(200);
    expect(await readsLeft(key, 1)).toBe(0);
  });
});

describe('a response above 1 MiB costs a point for each 256 KiB', () => {
  const DETAILS = `/api/v1/warehouse/return/details?return_id=${FAKE.returns.open}`;
  afterEach(() => under.resetServices());

  test.each([
    ['800 KiB: only the point of the request', 800, 19],
    ['2 MiB: nine additional points', 2 * KIB, 10],
    ['8 MiB: all points that are left, and the response is sent', 8 * KIB, 0],
  ])('%s', async (_size, kib, left) => {
    const customer = create(CustomerSchema, { firstName: 'x'.repeat(kib * KIB) });
    under.services.returns.findReturn = () => ({ return: { ...sampleReturn(), customer } });
    const key = await under.newKey({ restPerMinute: 20 });
    expect((await send({ path: DETAILS, key })).status).toBe(200);
    expect(await readsLeft(key, 22)).toBe(left);
  });
});

describe('the daily bytes of a shop', () => {
  const QUOTA = 1;
  let small: TestGateway;
  let sendTo: (sent: Sent) => Promise<Received>;

  beforeAll(async () => {
    small = await startTestGateway({ SHOP_MIB_PER_DAY: QUOTA });
    sendTo = restClient(small);
  });
  beforeEach(untilDayLasts);
  afterEach(() => small.gateway.resetLimits());
  afterAll(() => small.stop());

  const cart = (bytes: number) => ({ path: CART, raw: cartOf(bytes), headers: JSON_TYPE });
  const useUp = async () => {
    expect((await sendTo(cart(700 * KIB))).status).toBe(200);
    expect((await sendTo(cart(700 * KIB))).status).toBe(429);
  };

  test('beyond the quota are rejected until the day ends, with every key of the shop', async () => {
    await useUp();
    const rejected = await sendTo({ ...cart(100), key: await small.newKey() });
    expect(rejected).toMatchObject({ status: 429, body: { message: expect.any(String) } });
    const retryAfterS = Number(rejected.headers['retry-after']);
    const leftS = 86_400 - ((Date.now() / 1_000) % 86_400);
    expect(Math.abs(retryAfterS - leftS)).toBeLessThan(60);
  });

  test('do not block reads or other shops', async () => {
    await useUp();
    expect((await sendTo({ path: HOOKS })).status).toBe(200);
    const key = await small.newKey({ shopId: await small.newShop() });
    expect((await sendTo({ ...cart(700 * KIB), key })).status).toBe(200);
  });

  test('are counted over all replicas', async () => {
    const replica = await startTestGateway({
      DATABASE_URL: small.database.url,
      SHOP_MIB_PER_DAY: QUOTA,
    });
    const sendToReplica = restClient({ gateway: replica.gateway, key: small.key });
    await useUp();
    expect((await sendToReplica(cart(700 * KIB))).status).toBe(429);
    await replica.stop();
  });

  test('the body of a shop with a used-up quota is not read', async () => {
    await useUp();
    const notJson = { path: CART, raw: '{', headers: JSON_TYPE };
    expect((await sendTo(notJson)).status).toBe(429);
  });

  test('rejections are a metric', async () => {
    await useUp();
    const metrics = await (await fetch(small.gateway.metricsUrl)).text();
    expect(metrics).toMatch(/^shop_byte_quota_rejections_total [1-9]/m);
    expect(metrics).toMatch(/^http_server_request_body_bytes_total\{operation="createCart"\} \d+/m);
  });
});
