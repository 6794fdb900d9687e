import { connect } from 'node:net';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { restClient } from '../../test/kit/gateway/rest-client.ts';
import { startTestGateway, type TestGateway } from '../../test/kit/gateway/test-gateway.ts';
import { until } from '../../test/kit/until.ts';

// The gateway knows the sender of a received webhook only when it has the whole body.

const MIB = 1024 * 1024;
/** The budget of received webhooks; in this test also that of callers with a credential. */
const BUDGET = 16 * MIB;
/** A body that stops arriving is rejected after 10 to 11 s. */
const PATIENCE_MS = 30_000;

let under: TestGateway;
beforeAll(async () => {
  under = await startTestGateway({ bodyBudget: { process: BUDGET } });
});
afterAll(() => under?.stop());

/** Sends a webhook without the last byte of its body. */
function incomplete(o: { readonly path: string; readonly address: string; readonly sent: number }) {
  const socket = connect(under.gateway.port, '127.0.0.1');
  let received = '';
  socket
    .on('error', () => {})
    .on('data', (chunk) => {
      received += chunk;
    });
  const head = [
    `POST ${o.path} HTTP/1.1`,
    'host: x',
    `x-forwarded-for: ${o.address}`,
    'content-type: application/json',
    `content-length: ${o.sent + 1}`,
  ];
  socket.write(`${head.join('\r\n')}\r\n\r\n${'x'.repeat(o.sent)}`);
  return { status: () => Number(/^HTTP\/1\.1 (\d+)/.exec(received)?.[1]) };
}

async function reservedBytes(): Promise<number> {
  const metrics = await (await fetch(under.gateway.metricsUrl)).text();
  return Number(/^http_server_body_bytes\{of="webhooks"\} (\d+)/m.exec(metrics)?.[1]);
}

test('webhooks that stop arriving block no body of a caller with a key, and are rejected soon', async () => {
  const send = restClient(under);
  const webhooks = Array.from({ length: 16 }, (_, nth) =>
    incomplete({ path: '/commerce/shopify/webhooks', address: `192.0.2.${nth}`, sent: MIB - 1 }),
  );
  const event = { path: '/commerce/events/1', address: '198.51.100.1', sent: webhooks.length - 1 };
  const slow = [...webhooks, incomplete(event)];
  await until(async (see) => see(await reservedBytes()) === BUDGET - 1);

  expect((await send({ path: '/api/v1/cart', json: { cart: [1] } })).status).toBe(200);
  const rejected = await send({ path: event.path, key: null, json: {} });
  expect(rejected.status).toBe(503);
  expect(rejected.headers['retry-after']).toMatch(/^[1-9]\d*$/);

  const statuses = () => new Set(slow.map(({ status }) => status()));
  await until((see) => see([...statuses()]).join() === '408', PATIENCE_MS);
  expect(await reservedBytes()).toBe(0);
});
