import { Code } from '@connectrpc/connect';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { ErrorReason } from '../../proto/gen/rms/common/v1/error_pb.ts';
import { DomainError } from '../../services/platform/errors.ts';
import { FAKE } from '../../test/kit/gateway/fake-objects.ts';
import { type Received, restClient, type Sent } from '../../test/kit/gateway/rest-client.ts';
import { startTestGateway, type TestGateway } from '../../test/kit/gateway/test-gateway.ts';

let under: TestGateway;
let send: (sent: Sent) => Promise<Received>;

beforeAll(async () => {
  under = await startTestGateway();
  send = restClient(under);
});
afterEach(() => under.resetServices());
afterAll(() => under.stop());

const at = (path: string) => `/api/v1/webhooks/${FAKE.webhook}${path}`;
const TIME = '2026-11-20T10:00:00+00:00';

/** The requests of an RPC from now on, until the fakes are reset. */
function requestsOf(rpc: 'sendTest' | 'rotateSecret' | 'retryDeliveries'): object[] {
  const requests: object[] = [];
  const fake = under.services.webhooks[rpc] as (...args: unknown[]) => never;
  under.services.webhooks[rpc] = (request: object, context: unknown) => {
    requests.push(request);
    return fake(request, context);
  };
  return requests;
}

describe('a test event', () => {
  test('is answered with its delivery; without a body it has the trigger of the webhook', async () => {
    const requests = requestsOf('sendTest');
    const plain = await send({ method: 'POST', path: at('/test') });
    expect([plain.status, plain.body]).toMatchObject([
      201,
      { id: FAKE.delivery, test: true, state: 'waiting', trigger: 'return.closed', attempts: [] },
    ]);
    const other = await send({ path: at('/test'), json: { trigger: 'label.created' } });
    expect(other.body).toMatchObject({ trigger: 'label.created' });
    expect(requests).toMatchObject([
      { subscriptionId: FAKE.webhook, trigger: '' },
      { subscriptionId: FAKE.webhook, trigger: 'label.created' },
    ]);
  });

  test('with a trigger that the topic does not deliver is 422', async () => {
    const json = { trigger: 'shipment.processed' };
    expect(await send({ path: at('/test'), json })).toMatchObject({
      status: 422,
      body: { message: 'trigger is not delivered to topic return.', errors: {} },
    });
  });

  test.each([
    ['sendTest', '/test'],
    ['retryDeliveries', '/deliveries/retry'],
  ] as const)('of an inactive webhook is 409: %s', async (rpc, path) => {
    under.services.webhooks[rpc] = () => {
      const reason = ErrorReason.STATE_FORBIDS;
      throw new DomainError(Code.FailedPrecondition, reason, 'the subscription is inactive');
    };
    expect(await send({ path: at(path), json: {} })).toMatchObject({
      status: 409,
      body: { errors: { message: 'The subscription is inactive.' } },
    });
  });
});

describe('a secret', () => {
  test('is rotated, with the overlap of the request', async () => {
    const requests = requestsOf('rotateSecret');
    const shown = { secret: FAKE.secret, created_at: TIME, expires_at: null };
    const plain = await send({ method: 'POST', path: at('/secret/rotate') });
    expect([plain.status, plain.body]).toEqual([200, shown]);
    await send({ path: at('/secret/rotate'), json: { overlap_hours: 0 } });
    expect(requests).toMatchObject([{ subscriptionId: FAKE.webhook }, { overlapHours: 0 }]);
    expect(requests[0]).not.toHaveProperty('overlapHours');
  });

  test('is shown with those that still sign, and never cached', async () => {
    const { status, body, headers } = await send({ path: at('/secret') });
    expect([status, body]).toEqual([
      200,
      { secrets: [{ secret: FAKE.secret, created_at: TIME, expires_at: TIME }] },
    ]);
    expect(headers['cache-control']).toBe('no-store');
  });
});

describe('the earlier secrets', () => {
  const end = (id: bigint | string) =>
    send({ method: 'DELETE', path: `/api/v1/webhooks/${id}/secret/previous` });

  test('are ended without a body, again and again', async () => {
    for (let times = 0; times < 2; times += 1) {
      expect(await end(FAKE.webhook)).toMatchObject({ status: 204, text: '' });
    }
  });

  test('of a webhook that does not exist are 404', async () => {
    expect(await end('999')).toMatchObject({
      status: 404,
      body: { errors: { code: 'NOT_FOUND' } },
    });
  });
});

describe('the header Idempotency-Key', () => {
  test.each([
    ['sendTest', '/test'],
    ['rotateSecret', '/secret/rotate'],
    ['retryDeliveries', '/deliveries/retry'],
  ] as const)('%s: one key is one call; without it every request counts', async (rpc, path) => {
    const requests = requestsOf(rpc);
    const call = (headers = {}) => send({ path: at(path), json: {}, headers });
    await call({ 'idempotency-key': 'k-1' });
    await call({ 'idempotency-key': 'k-1' });
    await call();
    await call();
    const keys = requests.map((request) => Reflect.get(request, 'idempotencyKey'));
    expect(keys[0]).toMatch(/^rest:header:/);
    expect(keys[1]).toBe(keys[0]);
    expect(new Set(keys).size).toBe(3);
  });

  test('with other content, or malformed, is 422', async () => {
    const rotate = (key: string) => {
      const headers = { 'idempotency-key': key };
      return send({ path: at('/secret/rotate'), json: { overlap_hours: 1 }, headers });
    };
    expect(await rotate('k-1')).toMatchObject({
      status: 422,
      body: {
        message:
          'Idempotency-Key was used with other content: send a new key, or the same content as before.',
        errors: {},
      },
    });
    expect(await rotate('x'.repeat(201))).toMatchObject({ status: 422 });
  });
});
