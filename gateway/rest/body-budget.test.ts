import { connect, type Socket } from 'node:net';
import { gzipSync } from 'node:zlib';
import { create } from '@bufbuild/protobuf';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { CustomerSchema } from '../../proto/gen/rms/returns/v1/return_pb.ts';
import { sampleReturn } from '../../test/support/gateway/fake-objects.ts';
import { type Received, restClient, type Sent } from '../../test/support/gateway/rest-client.ts';
import { startTestGateway, type TestGateway } from '../../test/support/gateway/test-gateway.ts';
import { until } from '../../test/support/until.ts';

const MIB = 1024 * 1024;
/** More than the kernel takes for a client that does not read. */
const ANSWER_BYTES = 8 * MIB;
let under: TestGateway;
let send: (sent: Sent) => Promise<Received>;

beforeAll(async () => {
  under = await startTestGateway({
    bodyBudget: { process: 8 * MIB, caller: 2 * MIB },
    answerBudget: { process: 64 * MIB, caller: 20 * MIB },
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

/** A caller that announces a body, sends a part of it, and stays. */
function holding(key: string, size: number) {
  const socket = connect(under.gateway.port, '127.0.0.1');
  const lines = [`POST ${ASSESS} HTTP/1.1`, 'host: x', `x-authorization: ${key}`];
  const about = ['content-type: application/json', `content-length: ${size}`, '', '{'];
  socket.on('error', () => {}).resume();
  socket.write([...lines, ...about].join('\r\n'));
  return { leave: () => socket.destroy() };
}

/** A client that asks, and does not read. */
function reader(path: string): Socket {
  const socket = connect(under.gateway.port, '127.0.0.1');
  const lines = [`GET ${path} HTTP/1.1`, 'host: x', `x-authorization: ${under.key}`];
  socket.on('error', () => {}).pause();
  socket.write(`${lines.join('\r\n')}\r\n\r\n`);
  return socket;
}

async function heldBytes(of = 'bodies'): Promise<number> {
  const metrics = await (await fetch(under.gateway.metricsUrl)).text();
  return Number(new RegExp(`^http_server_body_bytes{of="${of}"} (\\d+)`, 'm').exec(metrics)?.[1]);
}

const BUSY = { body: { message: expect.any(String), errors: {} } };

describe('bytes of bodies in memory', () => {
  test.each([
    ['announced', assess],
    ['inflated', gzipped],
  ])('beyond the budget of a caller, as %s: 429 with Retry-After', async (_, ask) => {
    expect((await ask(2 * MIB)).status).toBe(200);
    const answer = await ask(2 * MIB + 1);
    expect(answer).toMatchObject({ status: 429, ...BUSY });
    expect(answer.headers['retry-after']).toMatch(/^[1-9]\d*$/);
  });

  test('beyond that of the process: 503 with Retry-After, while small bodies pass', async () => {
    const keys = await Promise.all(Array.from({ length: 4 }, () => under.newKey()));
    const held = keys.slice(1).map((key) => holding(key, 2 * MIB));
    await until(async () => (await heldBytes()) === 6 * MIB);
    const answer = await assess(1.5 * MIB, keys[0]);
    expect(answer).toMatchObject({ status: 503, ...BUSY });
    expect(answer.headers['retry-after']).toMatch(/^[1-9]\d*$/);
    expect((await assess(1_000, keys[0])).status).toBe(200);
    for (const one of held) one.leave();
    await until(async () => (await heldBytes()) === 0);
    expect((await assess(1.5 * MIB, keys[0])).status).toBe(200);
  });

  test('are given back after every end of a request', async () => {
    const json = { 'content-type': 'application/json' };
    expect((await assess(33 * MIB)).status).toBe(413);
    expect((await send({ path: ASSESS, raw: 'x', headers: json })).status).toBe(400);
    expect((await send({ path: ASSESS, raw: '{}', headers: json })).status).toBe(422);
    expect((await assess(1_000)).status).toBe(200);
    await until(async () => (await heldBytes()) === 0);
  });
});

describe('bytes of answers in memory', () => {
  const DETAILS = '/api/v1/warehouse/return/details?return_id=11';

  test('answers that nobody reads: beyond the budget of a shop 429, others are answered', async () => {
    const customer = create(CustomerSchema, { firstName: 'x'.repeat(ANSWER_BYTES) });
    under.services.returns.findReturn = () => ({ return: { ...sampleReturn(), customer } });
    const readers = [];
    for (const number of [1, 2]) {
      readers.push(reader(DETAILS));
      await until(async () => (await heldBytes('answers')) > number * ANSWER_BYTES);
    }
    const refused = await send({ path: DETAILS });
    expect(refused.status).toBe(429);
    expect(refused).toMatchObject(BUSY);
    expect(refused.headers['retry-after']).toMatch(/^[1-9]\d*$/);
    expect((await send({ path: '/api/v1/webhooks' })).status).toBe(200);
    for (const one of readers) one.destroy();
    await until(async () => (await heldBytes('answers')) === 0);
    expect((await send({ path: DETAILS })).status).toBe(200);
    under.resetServices();
  });
});
