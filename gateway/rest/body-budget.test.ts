import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { connect, type Socket } from 'node:net';
import { gzipSync } from 'node:zlib';
import { create } from '@bufbuild/protobuf';
import { Code } from '@connectrpc/connect';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { ErrorReason } from '../../proto/gen/rms/common/v1/error_pb.ts';
import { CustomerSchema } from '../../proto/gen/rms/returns/v1/return_pb.ts';
import { DomainError } from '../../services/platform/values/errors.ts';
import { FAKE, sampleReturn } from '../../test/kit/gateway/fake-objects.ts';
import { type Received, restClient, type Sent } from '../../test/kit/gateway/rest-client.ts';
import { startTestGateway, type TestGateway } from '../../test/kit/gateway/test-gateway.ts';
import { until, untilDayLasts } from '../../test/kit/until.ts';

describe('memory', () => {
  const MIB = 1024 * 1024;
  /** Size of a response. It is more than the kernel buffers for a client that does not read. */
  const RESPONSE_BYTES = 16 * MIB;
  const UNREAD_BYTES = 4 * MIB;
  let under: TestGateway;
  let send: (sent: Sent) => Promise<Received>;

  beforeAll(async () => {
    under = await startTestGateway({
      bodyBudget: { process: 8 * MIB, shop: 8 * MIB, caller: 2 * MIB },
      responseBudget: { process: 64 * MIB, shop: RESPONSE_BYTES + UNREAD_BYTES },
    });
    send = restClient(under);
  });
  afterAll(() => under.stop());

  const ASSESS = '/api/v1/dispositioning/assess';
  const body = (size: number): string => '{"items":[{"line_item_id":21}]}'.padEnd(size, ' ');
  const assess = (size: number, key = under.key): Promise<Received> =>
    send({ path: ASSESS, raw: body(size), key, headers: { 'content-type': 'application/json' } });
  const gzipped = (size: number, key = under.key): Promise<Received> => {
    const headers = { 'content-type': 'application/json', 'content-encoding': 'gzip' };
    return send({ path: ASSESS, raw: gzipSync(body(size)), key, headers });
  };

  /** Starts a request without the end of its body, and keeps the connection open. */
  function incomplete(key: string, size: number, sent = size - 1) {
    const socket = connect(under.gateway.port, '127.0.0.1');
    const lines = [`POST ${ASSESS} HTTP/1.1`, 'host: x', `x-authorization: ${key}`];
    const about = [
      'content-type: application/json',
      `content-length: ${size}`,
      '',
      '{'.padEnd(sent, ' '),
    ];
    socket.on('error', () => {}).resume();
    socket.write([...lines, ...about].join('\r\n'));
    return { disconnect: () => socket.destroy() };
  }

  /** A client that sends a request and does not read the response. */
  function reader(path: string, key = under.key): Socket {
    const socket = connect(under.gateway.port, '127.0.0.1');
    const lines = [`GET ${path} HTTP/1.1`, 'host: x', `x-authorization: ${key}`];
    socket.on('error', () => {}).pause();
    socket.write(`${lines.join('\r\n')}\r\n\r\n`);
    return socket;
  }

  async function reservedBytes(of = 'bodies'): Promise<number> {
    const metrics = await (await fetch(under.gateway.metricsUrl)).text();
    return Number(new RegExp(`^http_server_body_bytes{of="${of}"} (\\d+)`, 'm').exec(metrics)?.[1]);
  }

  const BUSY = { body: { message: expect.any(String), errors: {} } };

  describe('bytes of bodies in memory', () => {
    test.each([
      ['announced', assess],
      ['inflated', gzipped],
    ])('beyond the budget of a caller, %s: 429 with Retry-After', async (_, sendBody) => {
      expect((await sendBody(2 * MIB)).status).toBe(200);
      const response = await sendBody(2 * MIB + 1);
      expect(response).toMatchObject({ status: 429, ...BUSY });
      expect(response.headers['retry-after']).toMatch(/^[1-9]\d*$/);
    });

    test('beyond the budget of the process: 503 with Retry-After, but small bodies pass', async () => {
      const keys = await Promise.all(Array.from({ length: 4 }, () => under.newKey()));
      const requests = keys.slice(1).map((key) => incomplete(key, 2 * MIB));
      await until(async () => (await reservedBytes()) === 6 * MIB - 3);
      const response = await assess(1.5 * MIB, keys[0]);
      expect(response).toMatchObject({ status: 503, ...BUSY });
      expect(response.headers['retry-after']).toMatch(/^[1-9]\d*$/);
      expect((await assess(1_000, keys[0])).status).toBe(200);
      for (const request of requests) request.disconnect();
      await until(async () => (await reservedBytes()) === 0);
      expect((await assess(1.5 * MIB, keys[0])).status).toBe(200);
    });

    test('are counted as they arrive: an announced length alone is not counted', async () => {
      const keys = await Promise.all(Array.from({ length: 5 }, () => under.newKey()));
      const requests = keys.slice(1).map((key) => incomplete(key, 2 * MIB, 1_000));
      await until(async () => (await reservedBytes()) === 4_000);
      expect((await assess(2 * MIB, keys[0])).status).toBe(200);
      for (const request of requests) request.disconnect();
      await until(async () => (await reservedBytes()) === 0);
    });

    test('are released however a request ends', async () => {
      const json = { 'content-type': 'application/json' };
      expect((await assess(33 * MIB)).status).toBe(413);
      expect((await send({ path: ASSESS, raw: 'x', headers: json })).status).toBe(400);
      expect((await send({ path: ASSESS, raw: '{}', headers: json })).status).toBe(422);
      expect((await assess(1_000)).status).toBe(200);
      await until(async () => (await reservedBytes()) === 0);
    });
  });

  describe('bytes of responses in memory', () => {
    const DETAILS = '/api/v1/warehouse/return/details?return_id=11';

    test('unread responses beyond the budget of a shop: 429, but small responses pass', async () => {
      const customer = create(CustomerSchema, { firstName: 'x'.repeat(RESPONSE_BYTES) });
      under.services.returns.findReturn = () => ({ return: { ...sampleReturn(), customer } });
      const unread = reader(DETAILS);
      await until(async () => (await reservedBytes('answers')) > UNREAD_BYTES);
      const rejected = await send({ path: DETAILS });
      expect(rejected.status).toBe(429);
      expect(rejected).toMatchObject(BUSY);
      expect(rejected.headers['retry-after']).toMatch(/^[1-9]\d*$/);
      expect((await send({ path: '/api/v1/webhooks' })).status).toBe(200);
      unread.destroy();
      await until(async () => (await reservedBytes('answers')) === 0);
      expect((await send({ path: DETAILS })).status).toBe(200);
      under.resetServices();
    });

    test('unread responses of one shop do not block large returns of another shop', async () => {
      const customer = create(CustomerSchema, { firstName: 'x'.repeat(RESPONSE_BYTES) });
      let large = 0;
      under.services.returns.findReturn = ({ maxBytes }) => {
        if (maxBytes > 0) {
          const reason = ErrorReason.ANSWER_TOO_LARGE;
          throw new DomainError(Code.ResourceExhausted, reason, 'too large');
        }
        large += 1;
        return { return: { ...sampleReturn(), customer } };
      };
      const keys = [];
      for (let nth = 0; nth < 3; nth += 1)
        keys.push(await under.newKey({ shopId: await under.newShop() }));
      const readers = [];
      for (const key of keys.slice(1)) {
        readers.push(reader(DETAILS, key));
        await until(async () => large === readers.length && (await reservedBytes('answers')) > 0);
      }
      const response = await send({ path: DETAILS, ...(keys[0] && { key: keys[0] }) });
      expect(response.status).toBe(200);
      for (const socket of readers) socket.destroy();
      await until(async () => (await reservedBytes('answers')) === 0);
      under.resetServices();
    });
  });
});

describe('cost', () => {
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
      expect(metrics).toMatch(
        /^http_server_request_body_bytes_total\{operation="createCart"\} \d+/m,
      );
    });
  });
});
