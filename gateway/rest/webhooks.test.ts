import { Code } from '@connectrpc/connect';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { ErrorReason } from '../../proto/gen/rms/common/v1/error_pb.ts';
import { DeliveryState } from '../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { OPERATIONS } from '../../services/contract/operations.ts';
import { PARAMETERS } from '../../services/contract/validate/ignored.ts';
import { DomainError } from '../../services/platform/values/errors.ts';
import { FAKE, sampleSubscription } from '../../test/kit/gateway/fake-objects.ts';
import { type Received, restClient, type Sent } from '../../test/kit/gateway/rest-client.ts';
import { startTestGateway, type TestGateway } from '../../test/kit/gateway/test-gateway.ts';
import { nextPageLink } from './serve-operation.ts';

// Only the portal has descriptions of webhooks.
let under: TestGateway;
let send: (sent: Sent) => Promise<Received>;
beforeAll(async () => {
  under = await startTestGateway();
  send = restClient(under);
});
afterAll(() => under.stop());
afterEach(() => under.resetServices());

const WEBHOOKS = '/api/2026-10/webhooks';
const { topic, trigger, url } = sampleSubscription();
const json = { topic, trigger, url, description: 'Accounting' };
const described = () => ({ ...sampleSubscription(), description: 'Warehouse' });

test('no response about a webhook has its description', async () => {
  under.services.webhooks.listSubscriptions = () => ({ subscriptions: [described()] });
  under.services.webhooks.getSubscription = () => ({ subscription: described() });
  under.services.webhooks.createSubscription = () => ({
    subscription: described(),
    secret: FAKE.secret,
    payloadVersion: '2026-10',
  });
  const responses = [
    await send({ path: WEBHOOKS }),
    await send({ path: `${WEBHOOKS}/${FAKE.webhook}` }),
    await send({ path: WEBHOOKS, json }),
  ];
  expect(responses.map(({ status }) => status)).toEqual([200, 200, 201]);
  expect(responses.map(({ text }) => text).join()).not.toMatch(/description|Warehouse|Accounting/);
});

test('a body cannot set it, and an update that replaces the webhook keeps it', async () => {
  const asked: unknown[] = [];
  under.services.webhooks.createSubscription = ({ description }) => {
    asked.push(description);
    return { subscription: described(), secret: FAKE.secret, payloadVersion: '2026-10' };
  };
  under.services.webhooks.updateSubscription = ({ description }) => {
    asked.push(description);
    return { subscription: described(), payloadVersion: '2026-10' };
  };
  const created = await send({ path: WEBHOOKS, json });
  const path = `${WEBHOOKS}/${FAKE.webhook}`;
  const updated = await send({ method: 'PUT', path, json });
  expect([created.status, updated.status]).toEqual([201, 204]);
  expect(asked).toEqual(['', undefined]);
  expect(updated.headers['x-service-hint']).toContain('description is no field');
});

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

/** The address of the next page in the `Link` of a response. */
function nextOf({ headers }: Received): string | undefined {
  return /<([^>]*)>; rel="next"/.exec(String(headers.link))?.[1];
}

const PAGED = OPERATIONS.filter(({ id }) => PARAMETERS[id]?.includes('cursor'));

test('lists have pages', () => {
  const ofReturns = ['listExpected', 'listReturns', 'getReturnTimeline'];
  expect(PAGED.map(({ id }) => id)).toEqual(['listDeliveries', 'listReplays', ...ofReturns]);
});

describe.each(PAGED)('$id', ({ path }) => {
  const id = path.startsWith('/returns/') ? FAKE.returns.open : FAKE.webhook;
  const at = (version: string) => `/api/${version}${path.replace('{id}', String(id))}`;

  test.each(['v1', '2026-10', 'unstable'])('links to its next page in %s', async (version) => {
    const first = await send({ path: `${at(version)}?limit=1` });
    const next = nextOf(first);
    expect(next).toBe(`${at(version)}?limit=1&cursor=${Object(first.body).next_cursor}`);
    expect((await send({ path: next ?? '' })).status).toBe(200);
    const head = await send({ method: 'HEAD', path: `${at(version)}?limit=1` });
    expect(nextOf(head)).toBe(next);
  });

  test('has no link on its last page', async () => {
    expect(nextOf(await send({ path: at('v1') }))).toBeUndefined();
  });
});

describe('the link', () => {
  const operation = { id: 'listReturns' } as const;
  const linkOf = (target: string, next_cursor: string | null = 'c.1') =>
    nextPageLink(operation, target, { returns: [], next_cursor });

  test('keeps the filters, as they were meant, and replaces the cursor', () => {
    expect(
      linkOf('/api/v1/warehouse/returns?query=%231001+%C3%A4&state=open%2Cclosed&cursor=b'),
    ).toBe(
      '</api/v1/warehouse/returns?query=%231001+%C3%A4&state=open%2Cclosed&cursor=c.1>; rel="next"',
    );
  });

  test('keeps lists that were sent with brackets, without which it would be a link to another list', () => {
    expect(linkOf('/api/v1/warehouse/returns?state[]=open&label_status[0]=error&limit[]=1')).toBe(
      '</api/v1/warehouse/returns?state%5B%5D=open&label_status%5B0%5D=error&cursor=c.1>; rel="next"',
    );
  });

  test('has no parameter that the operation does not know, and nothing that ends it early', () => {
    expect(linkOf('/api/v1/warehouse/returns?x=1&query=a>b"c')).toBe(
      '</api/v1/warehouse/returns?query=a%3Eb%22c&cursor=c.1>; rel="next"',
    );
  });

  test('is absent from the last page, from operations without pages, and when it is too long', () => {
    expect(linkOf(`/api/v1/warehouse/returns?state=open${',open'.repeat(1_500)}`)).toBeUndefined();
    expect(linkOf('/api/v1/warehouse/returns', null)).toBeUndefined();
    expect(nextPageLink({ id: 'listWebhooks' }, '/api/v1/webhooks', [])).toBeUndefined();
    const echo = { next_cursor: 'x' };
    expect(nextPageLink({ id: 'createCart' }, '/api/v1/cart', echo)).toBeUndefined();
  });
});
