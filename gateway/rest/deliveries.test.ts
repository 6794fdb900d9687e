import { Code } from '@connectrpc/connect';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { ErrorReason } from '../../proto/gen/rms/common/v1/error_pb.ts';
import { DeliveryState } from '../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
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

describe('deliveries of a webhook', () => {
  const path = `/api/v1/webhooks/${FAKE.webhook}/deliveries`;
  const shown = {
    id: FAKE.delivery,
    event_id: '0199e1a4-7b20-7000-8000-000000000001',
    topic: 'return',
    trigger: 'return.closed',
    state: 'delivered',
    test: false,
    api_version: '2026-07',
    return_id: 11,
    occurred_at: '2026-11-20T10:00:00+00:00',
    created_at: '2026-11-20T10:00:00+00:00',
    next_attempt_at: null,
    finished_at: '2026-11-20T10:00:00+00:00',
    attempts: [
      {
        number: 1,
        at: '2026-11-20T10:00:00+00:00',
        status: 200,
        error: null,
        duration_ms: 12,
        timing: { dns_ms: null, connect_ms: null, tls_ms: null, wait_ms: 9, read_ms: 1 },
      },
    ],
  };

  test('are listed without request bodies and received responses', async () => {
    const response = await send({ path });
    expect([response.status, response.body]).toEqual([
      200,
      { deliveries: [shown], next_cursor: null },
    ]);
  });

  test('have pages and filters', async () => {
    const requests: object[] = [];
    const fake = under.services.webhooks.listDeliveries;
    under.services.webhooks.listDeliveries = (request, context) => {
      requests.push(request);
      if (!fake) throw new Error('no fake');
      return fake(request, context);
    };
    const query =
      'state=held&trigger=return.created&from=2026-11-20T10:00:00%2B01:00&to=2026-11-21T00:00:00Z';
    const first = await send({ path: `${path}?limit=1&${query}` });
    expect(first.body).toMatchObject({ next_cursor: 'next' });
    expect((await send({ path: `${path}?cursor=next` })).status).toBe(200);
    under.resetServices();
    expect(requests).toMatchObject([
      {
        subscriptionId: FAKE.webhook,
        liveOnly: true,
        states: [DeliveryState.HELD],
        trigger: 'return.created',
        from: { seconds: BigInt(Date.UTC(2026, 10, 20, 9) / 1000) },
        to: { seconds: BigInt(Date.UTC(2026, 10, 21) / 1000) },
        pageSize: 1,
        cursor: '',
      },
      { pageSize: 50, cursor: 'next', states: [], trigger: '' },
    ]);
  });

  test('are replayed, and the response is the delivery', async () => {
    const response = await send({ method: 'POST', path: `${path}/${FAKE.delivery}/replay` });
    expect([response.status, response.body]).toEqual([200, { ...shown, state: 'waiting' }]);
  });

  test.each(['msg_1', 'x', '%00', '%zz', 'msg_0199E1A4-7B20-8ABC-8DEF-000000000041'])(
    'the delivery %s is 404',
    async (id) => {
      const path = `/api/v1/webhooks/41/deliveries/${id}/replay`;
      const body = { errors: { code: 'NOT_FOUND' } };
      expect(await send({ method: 'POST', path })).toMatchObject({ status: 404, body });
    },
  );

  test('a delivery that cannot be replayed in its current state is 409', async () => {
    under.services.webhooks.replayDelivery = () => {
      const reason = ErrorReason.STATE_FORBIDS;
      throw new DomainError(Code.FailedPrecondition, reason, 'the delivery is waiting already');
    };
    const path = `/webhooks/41/deliveries/${FAKE.delivery}/replay`;
    const message = 'The delivery is waiting already.';
    expect(await send({ method: 'POST', path: `/api/v1${path}` })).toMatchObject({
      status: 409,
      body: { errors: { code: 'DELIVERY_NOT_REPLAYABLE', message } },
    });
    expect(await send({ method: 'POST', path: `/api/unstable${path}` })).toMatchObject({
      status: 409,
      body: { code: 'DELIVERY_NOT_REPLAYABLE', detail: message, status: 409 },
      headers: { 'content-type': 'application/problem+json' },
    });
  });

  test.each([
    ['state=', 'state must not be empty.'],
    ['state=held&state=held', 'state must be given once.'],
    ['state=lost', 'state must be one of waiting, held, delivered, exhausted, expired, dropped.'],
    ['trigger=return', expect.stringMatching(/^trigger must be one of return\.created, /)],
    ['from=2026-11-20', expect.stringMatching(/^from must be an RFC 3339 date-time/)],
    ['from=2026-11-20T10:00:00Z&to=2026-11-20T10:00:00Z', 'to must be after from.'],
    ['limit=0', 'limit must be a whole number from 1 to 100.'],
    ['limit=101', 'limit must be a whole number from 1 to 100.'],
    ['limit=1.0', 'limit must be a whole number from 1 to 100.'],
    [`cursor=${'x'.repeat(201)}`, 'cursor must be at most 200 characters.'],
    ['cursor=x', 'cursor must be the cursor of a previous page.'],
    ['cursor=%00', 'cursor must not contain NUL or unpaired surrogate characters.'],
  ])('deliveries?%s is 422, even for a webhook that does not exist', async (query, message) => {
    for (const id of ['41', 'abc']) {
      if (id === 'abc' && query === 'cursor=x') continue;
      expect(await send({ path: `/api/v1/webhooks/${id}/deliveries?${query}` })).toMatchObject({
        status: 422,
        body: { message, errors: {} },
      });
    }
  });
});
