import { connect } from 'node:net';
import { Code, ConnectError } from '@connectrpc/connect';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import type { ReceiveEventRequest } from '../../proto/gen/rms/commerce/v1/commerce_pb.ts';
import { COMMERCE_EVENT_BYTES_MAX } from '../../services/contract/limits.ts';
import { restClient } from '../../test/kit/gateway/rest-client.ts';
import { startTestGateway, type TestGateway } from '../../test/kit/gateway/test-gateway.ts';
import { until } from '../../test/kit/until.ts';

describe('events of a platform', () => {
  // POST /commerce/events/{shop_id}: the returns service is a fake.
  let under: TestGateway;
  let received: ReceiveEventRequest[];
  const lines: string[] = [];
  beforeAll(async () => {
    const logDestination = { write: (line: string): void => void lines.push(line) };
    const logs = { LOG_LEVEL: 'info', logDestination } as const;
    under = await startTestGateway({ COMMERCE_EVENTS_PER_HOUR: 50, ...logs });
  });
  afterAll(() => under.stop());
  beforeEach(async () => {
    await under.gateway.resetLimits();
    received = [];
    under.services.commerce.receiveEvent = (request) => {
      received.push(request);
      return { result: { case: 'accepted', value: {} } };
    };
  });

  const HEADERS = {
    'content-type': 'application/json',
    'webhook-id': 'e1',
    'webhook-timestamp': '1790000000',
    'webhook-signature': 'v1,abc v1,def',
  };

  async function post(
    body: string | Uint8Array<ArrayBuffer>,
    { shop = '1', headers = HEADERS as Record<string, string> } = {},
  ) {
    const url = `${under.gateway.baseUrl}/commerce/events/${shop}`;
    const response = await fetch(url, { method: 'POST', headers, body });
    const text = await response.text();
    return { status: response.status, headers: response.headers, text };
  }

  const refusal = (message: unknown = expect.any(String)) => ({ error: { message } });

  describe('an event', () => {
    test('is forwarded with its bytes and its three headers, and answered with 204', async () => {
      const body = new Uint8Array([0x7b, 0x20, 0xff, 0x7d]);
      const answer = await post(body, { shop: '77' });
      expect([answer.status, answer.text]).toEqual([204, '']);
      expect(answer.headers.get('cache-control')).toBe('no-store');
      expect(received).toMatchObject([
        {
          shopId: 77n,
          webhookId: 'e1',
          webhookTimestamp: '1790000000',
          webhookSignature: 'v1,abc v1,def',
        },
      ]);
      expect(Buffer.from(received[0]?.body ?? [])).toEqual(Buffer.from(body));
    });

    test('needs no API key, and no signature here: the service decides', async () => {
      await post('{}', { headers: { 'content-type': 'application/json' } });
      expect(received).toMatchObject([
        { webhookId: '', webhookTimestamp: '', webhookSignature: '' },
      ]);
    });

    test('may have 256 KiB', async () => {
      expect((await post('x'.repeat(COMMERCE_EVENT_BYTES_MAX))).status).toBe(204);
    });
  });

  describe('a refusal', () => {
    const unverified = { case: 'unverified', value: {} } as const;

    test('is the same 401 for an invalid signature and for a shop id that nobody has', async () => {
      under.services.commerce.receiveEvent = () => ({ result: unverified });
      const answers = await Promise.all([
        post('{}'),
        post('{}', { shop: 'x' }),
        post('{}', { shop: '0' }),
        post('{}', { shop: '99999999999999999999' }),
      ]);
      expect(new Set(answers.map(({ status, text }) => `${status} ${text}`)).size).toBe(1);
      expect(answers[0]?.status).toBe(401);
      expect(JSON.parse(answers[0]?.text ?? '')).toEqual(refusal());
      const isLogged = (line: string) => line.includes('"refused":"wrong signature"');
      await until(() => lines.filter(isLogged).length === answers.length);
    });

    test('is 400 with the message of the service', async () => {
      const value = { message: 'data.order.id: is wrong' };
      under.services.commerce.receiveEvent = () => ({ result: { case: 'invalid', value } });
      const { status, text } = await post('{}');
      expect([status, JSON.parse(text)]).toEqual([400, refusal(value.message)]);
    });

    test('is 413 for a body that is too large', async () => {
      const { status, text } = await post('x'.repeat(COMMERCE_EVENT_BYTES_MAX + 1));
      expect([status, JSON.parse(text)]).toEqual([413, refusal()]);
      expect(received).toEqual([]);
    });

    test('is 415 for another media type', async () => {
      const headers = { ...HEADERS, 'content-type': 'text/plain' };
      const { status, text } = await post('{}', { headers });
      expect([status, JSON.parse(text)]).toEqual([415, refusal()]);
    });

    test('is 405 for another method', async () => {
      const url = `${under.gateway.baseUrl}/commerce/events/1`;
      const response = await fetch(url);
      expect([response.status, response.headers.get('allow')]).toEqual([405, 'POST, OPTIONS']);
    });

    test('is 429 with Retry-After after too many events of an address', async () => {
      const answers = [];
      for (let n = 0; n < 51; n += 1) answers.push(await post('{}'));
      const { status, headers, text } = answers[50] ?? (await post('{}'));
      expect([status, JSON.parse(text)]).toEqual([429, refusal()]);
      expect(Number(headers.get('retry-after'))).toBeGreaterThan(0);
      expect(received).toHaveLength(50);
    });

    test('is 503 with Retry-After while the returns service is unavailable', async () => {
      under.services.commerce.receiveEvent = () => {
        throw new ConnectError('down', Code.Unavailable);
      };
      const { status, headers, text } = await post('{}');
      expect([status, JSON.parse(text)]).toEqual([503, refusal()]);
      expect(Number(headers.get('retry-after'))).toBeGreaterThan(0);
    });

    test('is 500 for an unexpected error, without its text', async () => {
      under.services.commerce.receiveEvent = () => {
        throw new ConnectError('secret detail', Code.Internal);
      };
      const { status, text } = await post('{}');
      expect([status, text.includes('secret detail')]).toEqual([500, false]);
    });
  });
});

describe('bodies that arrive slowly', () => {
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
  function incomplete(o: {
    readonly path: string;
    readonly address: string;
    readonly sent: number;
  }) {
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
    const event = {
      path: '/commerce/events/1',
      address: '198.51.100.1',
      sent: webhooks.length - 1,
    };
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
});
