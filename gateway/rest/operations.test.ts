import { randomUUID } from 'node:crypto';
import { inspect } from 'node:util';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import pg from 'pg';
import type { Operation } from '../../services/contract/operation.ts';
import { OPERATIONS } from '../../services/contract/operations.ts';
import { type AuditRow, auditLogOf } from '../../test/kit/gateway/audit-log.ts';
import { FAKE, sampleSubscription } from '../../test/kit/gateway/fake-objects.ts';
import { type Received, restClient, type Sent } from '../../test/kit/gateway/rest-client.ts';
import { startTestGateway, type TestGateway } from '../../test/kit/gateway/test-gateway.ts';
import { keyHeader, VALID_BODIES } from '../../test/kit/gateway/valid-bodies.ts';
import { parseKey } from '../auth/key-format.ts';
import { isAudited } from './audited.ts';

let under: TestGateway;
let send: (sent: Sent) => Promise<Received>;
beforeAll(async () => {
  under = await startTestGateway();
  send = restClient(under);
});
afterAll(() => under.stop());

const webhook = { topic: 'return', trigger: 'return.closed', url: 'https://hooks.example.com/' };

test('lists webhooks', async () => {
  const response = await send({ path: '/api/v1/webhooks' });
  expect(response).toMatchObject({
    status: 200,
    body: [{ id: 41, topic: 'return', trigger: 'return.closed', status: 'active' }],
  });
});

test('creates a webhook and shows its secret', async () => {
  const response = await send({ path: '/api/v1/webhooks', json: webhook });
  expect(response).toMatchObject({
    status: 201,
    body: {
      ...webhook,
      id: 41,
      status: 'active',
      secret: expect.stringMatching(/^whsec_/),
      payload_version: '2026-07',
    },
  });
});

test('updates and deletes a webhook without a response body', async () => {
  const path = `/api/v1/webhooks/${FAKE.webhook}`;
  expect(await send({ method: 'PUT', path, json: webhook })).toMatchObject({
    status: 204,
    text: '',
    headers: { 'x-service-payload-version': '2026-07' },
  });
  expect(await send({ method: 'DELETE', path })).toMatchObject({ status: 204, text: '' });
});

test('assesses dispositions', async () => {
  const items = [{ line_item_id: 21, inspected_at: '2026-11-20T12:00:00.5+02:00', note: null }];
  expect(await send({ path: '/api/v1/dispositioning/assess', json: { items } })).toMatchObject({
    status: 200,
    body: [
      {
        line_item_id: 21,
        disposition_outcome: 'back_to_stock',
        return_processor: null,
        note: null,
        inspected_at: '2026-11-20T10:00:00+00:00',
      },
    ],
  });
});

test('lists destinations, and reads one', async () => {
  const { status, body } = await send({ path: '/api/v1/destinations' });
  const one = await send({ path: '/api/v1/destinations/31' });
  expect(status).toBe(200);
  expect(one).toMatchObject({
    status: 200,
    body: { id: 31, type: 'warehouse', name: expect.any(String), address: expect.any(Object) },
  });
  expect(body).toMatchObject({ destinations: expect.arrayContaining([one.body]) });
  expect(one.text).not.toContain('phone');
});

test('updates a destination', async () => {
  const json = {
    name: 'North',
    type: 'donate',
    enabled: false,
    address: { country_code: 'gb', phone: '1' },
  };
  const response = await send({ method: 'PUT', path: '/api/v1/destinations/31', json });
  expect(response).toMatchObject({
    status: 200,
    body: { id: 31, name: 'North', type: 'donate', enabled: false, provider_location_id: null },
  });
  expect(response.text).not.toContain('phone');
});

test('reads return details by id and by order name', async () => {
  const byId = await send({ path: '/api/v1/warehouse/return/details?return_id=11' });
  const byName = await send({ path: '/api/v1/warehouse/return/details?order_name=%231001' });
  expect(byId).toMatchObject({ status: 200, body: { id: 11, order_name: '#1001', state: 'open' } });
  expect(byName.body).toEqual(byId.body);
});

test('converts the details to the served version', async () => {
  const path = '/warehouse/return/details?return_id=11';
  const older = await send({ path: `/api/2026-07${path}` });
  const newer = await send({ path: `/api/2026-10${path}` });
  expect(older.body).toMatchObject({
    line_items: [{ condition: { condition_category: 'grade_a' } }],
  });
  expect(newer.body).toMatchObject({
    line_items: [{ condition: { condition_category: { grade: 'a', subject: 'item' } } }],
  });
});

test('creates a fraud report, with and without a body', async () => {
  const path = '/api/v1/returns/11/fraud-report';
  const json = { category: 'other', comment: 'Seen before' };
  expect(await send({ path, json })).toMatchObject({
    status: 201,
    body: { return_id: 11, ...json },
  });
  expect(await send({ method: 'POST', path })).toMatchObject({
    status: 201,
    body: { category: null, comment: null, created_at: '2026-11-20T10:00:00+00:00' },
  });
});

test('queues a return for processing', async () => {
  const path = '/api/v1/warehouse/return/11/process';
  expect(await send({ method: 'POST', path })).toMatchObject({ status: 200, text: 'true' });
  expect(await send({ path, json: { gift: 'yes', n: 1.5, ok: true, none: null } })).toMatchObject({
    status: 200,
    text: 'true',
  });
});

test('returns the error of a return that cannot be processed inside a 200, in every version', async () => {
  for (const version of ['v1', '2026-07', '2026-10', 'unstable']) {
    const flagged = await send({
      method: 'POST',
      path: `/api/${version}/warehouse/return/12/process`,
    });
    const closed = await send({
      method: 'POST',
      path: `/api/${version}/warehouse/return/13/process`,
    });
    const unconnected = await send({
      method: 'POST',
      path: `/api/${version}/warehouse/return/15/process`,
    });
    expect(flagged).toMatchObject({
      status: 200,
      body: { errors: { code: 'UNPROCESSABLE_FLAGGED_RETURN', message: expect.any(String) } },
    });
    for (const other of [closed, unconnected]) {
      expect(other).toMatchObject({
        status: 200,
        body: { errors: { code: 'UNPROCESSABLE_RETURN' } },
      });
    }
  }
});

test('creates a cart and echoes it', async () => {
  const json = { cart: [1, { variant_id: 2, quantity: 3, note: 'x' }], shopify: null };
  expect(await send({ path: '/api/v1/cart', json })).toMatchObject({
    status: 200,
    body: { token: expect.any(String), data: json },
  });
});

test('echoes the numbers of a cart with all their digits', async () => {
  const cart = '[1,{"variant_id":2,"price":1.10,"nested":{"ref":12345678901234567890}}]';
  const headers = { 'content-type': 'application/json' };
  const { status, text } = await send({ path: '/api/v1/cart', raw: `{"cart":${cart}}`, headers });
  expect(status).toBe(200);
  expect(text).toContain(`"data":{"cart":${cart}}`);
});

const NO_IDS = [
  ...['1.5', '9007199254740993', '"2"', '0', '-0', '1e999'],
  // A double rounds these to an id.
  ...['9007199254740991.4', '1.00000000000000000001', '0.99999999999999999999'],
];

test.each([...NO_IDS, '10000000000000000000001e-22'])(
  'rejects %s as an id of a line item',
  async (id) => {
    const headers = { 'content-type': 'application/json' };
    const raw = `{"items":[{"line_item_id":${id}}]}`;
    expect(await send({ path: '/api/v1/dispositioning/assess', raw, headers })).toMatchObject({
      status: 422,
      body: { message: 'items[0].line_item_id must be an integer from 1 to 9007199254740991.' },
    });
  },
);

test('a number that a double rounds is no object', async () => {
  const headers = { 'content-type': 'application/json' };
  const raw = '{"name":"North","address":1.00000000000000000001}';
  const path = '/api/v1/destinations/31';
  expect(await send({ method: 'PUT', path, raw, headers })).toMatchObject({
    status: 422,
    body: { message: 'address must be an object.' },
  });
});

test('ignores numbers of any form in unknown fields', async () => {
  const headers = { 'content-type': 'application/json' };
  const line = `"line_item_id":${FAKE.lineItem}.0,"weight":1.00000000000000000001`;
  const raw = `{"items":[{${line}}],"x":[-1e-400,0.5,9007199254740991.4]}`;
  const path = '/api/v1/dispositioning/assess';
  expect(await send({ path, raw, headers })).toMatchObject({ status: 200 });
});

test.each(NO_IDS)('rejects %s as a variant id', async (id) => {
  const headers = { 'content-type': 'application/json' };
  const bare = await send({ path: '/api/v1/cart', raw: `{"cart":[${id}]}`, headers });
  const raw = `{"cart":[{"variant_id":${id}}]}`;
  const named = await send({ path: '/api/v1/cart', raw, headers });
  expect([bare.status, named.status]).toEqual([422, 422]);
});

test('accepts a variant id with a fraction of zero', async () => {
  const headers = { 'content-type': 'application/json' };
  const raw = '{"cart":[7.0,{"variant_id":8.0}]}';
  const { status, text } = await send({ path: '/api/v1/cart', raw, headers });
  expect(status).toBe(200);
  expect(text).toContain('"data":{"cart":[7,{"variant_id":8.0}]}');
});

describe('the audit log of REST', () => {
  afterEach(() => under.resetServices());

  const BODIES: Readonly<Partial<Record<Operation['id'], object>>> = {
    ...VALID_BODIES,
    assessDispositions: { items: [{ line_item_id: 21 }, { line_item_id: 1_000 }] },
  };
  const IDS: Readonly<Partial<Record<Operation['id'], bigint>>> = {
    getReplay: FAKE.replay,
    cancelReplay: FAKE.replay,
    getDestination: FAKE.destination,
    updateDestination: FAKE.destination,
    createFraudReport: FAKE.returns.open,
    listEffects: FAKE.returns.open,
    cancelReturn: FAKE.returns.open,
    getReturnTimeline: FAKE.returns.open,
    recordLabel: FAKE.returns.open,
    updateLabel: FAKE.label,
    recordGiftCard: FAKE.returns.open,
    processReturn: FAKE.returns.open,
  };
  /** The expected subject of an entry; by default the id in the path. */
  const SUBJECTS: Readonly<Partial<Record<Operation['id'], string>>> = {
    createWebhook: String(FAKE.webhook),
    previewReplay: '',
    startReplay: String(FAKE.replay),
    replayDelivery: `${FAKE.webhook} ${FAKE.delivery}`,
    assessDispositions: '21 1000',
    gradeItems: '21',
    recordArrival: `${FAKE.returns.open}`,
    createCart: '',
    submitReturn: String(FAKE.returns.open),
  };

  const QUERY: Readonly<Partial<Record<Operation['id'], string>>> = {
    getReturnDetails: '?return_id=11',
    getEligibility: '?order_name=%231001',
  };

  function requestOf(operation: Operation, objectId = IDS[operation.id] ?? FAKE.webhook): Sent {
    const { id, method, path } = operation;
    const named = path
      .replace('{id}', String(objectId))
      .replace('{token}', FAKE.cartToken)
      .replace('{delivery_id}', objectId === 999n ? 'msg_none' : FAKE.delivery);
    const query = QUERY[id] ?? '';
    const json = BODIES[id];
    const headers = keyHeader(operation);
    return { method, path: `/api/v1${named}${query}`, headers, ...(json && { json }) };
  }

  /** Sends a request from an IPv6 address with a new request id, and returns the id. */
  async function sendTracked(sent: Sent): Promise<{ requestId: string; response: Received }> {
    const requestId = randomUUID();
    const own = { 'x-request-id': requestId, 'x-forwarded-for': '2001:db8:1:2:3:4:5:6' };
    const headers = { ...sent.headers, ...own };
    return { requestId, response: await send({ ...sent, headers }) };
  }

  const entriesOf = (requestId: string) =>
    auditLogOf(under.database.pool, { request_id: requestId });

  /** The only entry of a write. */
  async function entryOf(requestId: string): Promise<AuditRow> {
    const [entry, ...others] = await entriesOf(requestId);
    expect(others).toEqual([]);
    if (!entry) throw new Error('the write has no entry');
    return entry;
  }

  const WRITES = OPERATIONS.filter(isAudited);
  const READS = OPERATIONS.filter((operation) => !isAudited(operation));

  test.each(WRITES)(
    '$id: has actor, address, request id, subject and outcome',
    async (operation) => {
      const { requestId, response } = await sendTracked(requestOf(operation));
      expect(response.status).toBe(operation.success.status);
      expect(await entryOf(requestId)).toMatchObject({
        shop_id: 1n,
        actor_kind: 'api_key',
        actor_id: parseKey(under.key)?.keyId,
        source: '2001:db8:1:2::/64',
        action: `rest.${operation.id}`,
        subject: SUBJECTS[operation.id] ?? String(IDS[operation.id] ?? FAKE.webhook),
        detail: { phase: 'done', status: operation.success.status, version: '2026-07' },
      });
      expect(inspect(await entriesOf(requestId), { depth: null })).not.toMatch(/whsec_|ttttt/);
    },
  );

  test('a change has the former and the new values, without secrets', async () => {
    under.services.webhooks.updateSubscription = () => ({
      subscription: { ...sampleSubscription(), url: 'https://new.example.com/in?token=s3cret' },
      previous: { ...sampleSubscription(), url: 'https://u:pw@old.example.com/in' },
    });
    const json = { ...VALID_BODIES.updateWebhook, url: 'https://new.example.com/in?token=s3cret' };
    const { requestId } = await sendTracked({ method: 'PUT', path: '/api/v1/webhooks/41', json });
    const entry = await entryOf(requestId);
    expect(entry.detail).toMatchObject({
      phase: 'done',
      changes: [
        {
          field: 'url',
          from: 'https://old.example.com/in',
          to: 'https://new.example.com/in?token=…',
        },
      ],
    });
    expect(inspect(entry, { depth: null })).not.toMatch(/s3cret|pw@/);
  });

  test.each(READS)('$id is a read and has no entry', async (operation) => {
    const { requestId, response } = await sendTracked(requestOf(operation));
    expect(response.status).toBe(200);
    expect(await entriesOf(requestId)).toEqual([]);
  });

  test.each(WRITES.filter(({ path }) => path.includes('{id}')))(
    '$id with an id that does not exist has the phase refused',
    async (operation) => {
      const { requestId, response } = await sendTracked(requestOf(operation, 999n));
      expect(response.status).toBe(404);
      expect(await entryOf(requestId)).toMatchObject({ detail: { phase: 'refused', status: 404 } });
    },
  );

  test('an error inside a 200 has the phase refused', async () => {
    const path = `/api/v1/warehouse/return/${FAKE.returns.flagged}/process`;
    const { requestId } = await sendTracked({ method: 'POST', path });
    expect(await entryOf(requestId)).toMatchObject({ detail: { phase: 'refused', status: 200 } });
  });

  test('a call to which a service does not respond has the phase unknown', async () => {
    under.services.carts.createCart = () => {
      throw new Error('gone');
    };
    const { requestId } = await sendTracked({ path: '/api/v1/cart', json: { cart: [1] } });
    expect(await entryOf(requestId)).toMatchObject({ detail: { phase: 'unknown', status: 500 } });
  });

  test('a call is committed as open before the service is called', async () => {
    const requestId = randomUUID();
    let seen: unknown[] = [];
    const { createCart } = under.services.carts;
    under.services.carts.createCart = async (request, context) => {
      const { rows } = await under.database.pool.query(
        'select action from open_calls where request_id = $1',
        [requestId],
      );
      seen = rows;
      return createCart?.(request, context) ?? {};
    };
    const headers = { 'x-request-id': requestId };
    await send({ path: '/api/v1/cart', json: { cart: [1] }, headers });
    expect(seen).toEqual([{ action: 'rest.createCart' }]);
  });

  test('nothing is changed while the audit log cannot be written', async () => {
    const migrator = new pg.Client({ connectionString: under.database.migratorUrl });
    await migrator.connect();
    let calls = 0;
    under.services.carts.createCart = () => {
      calls += 1;
      return {};
    };
    await migrator.query('revoke insert on gateway.open_calls from rms_gateway');
    const { status } = await send({ path: '/api/v1/cart', json: { cart: [1] } });
    const read = await send({ path: '/api/v1/webhooks' });
    await migrator.query('grant insert on gateway.open_calls to rms_gateway');
    await migrator.end();
    expect({ isServerError: status >= 500, calls, read: read.status }).toEqual({
      isServerError: true,
      calls: 0,
      read: 200,
    });
  });
});
