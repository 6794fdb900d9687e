import { connect, type Socket } from 'node:net';
import { gzipSync } from 'node:zlib';
import { create } from '@bufbuild/protobuf';
import { Code } from '@connectrpc/connect';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { ErrorReason } from '../../proto/gen/rms/common/v1/error_pb.ts';
import { CustomerSchema } from '../../proto/gen/rms/returns/v1/return_pb.ts';
import { DomainError } from '../../services/platform/errors.ts';
import { sampleReturn } from '../../test/kit/gateway/fake-objects.ts';
import { type Received, restClient, type Sent } from '../../test/kit/gateway/rest-client.ts';
import { startTestGateway, type TestGateway } from '../../test/kit/gateway/test-gateway.ts';
import { until } from '../../test/kit/until.ts';

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
