import { Code } from '@connectrpc/connect';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { ErrorReason } from '../../proto/gen/rms/common/v1/error_pb.ts';
import { LabelStatus, ReturnState } from '../../proto/gen/rms/returns/v1/return_pb.ts';
import {
  SearchReturnsRequest_Archived as Archived,
  SearchReturnsRequest_Sort as Sort,
} from '../../proto/gen/rms/returns/v1/returns_pb.ts';
import type { OperationId } from '../../services/contract/operation.ts';
import { OPERATIONS } from '../../services/contract/operations.ts';
import { DomainError } from '../../services/platform/values/errors.ts';
import { idempotencyConflict } from '../../services/platform/values/idempotency.ts';
import { FAKE } from '../../test/kit/gateway/fake-objects.ts';
import { type Received, restClient, type Sent } from '../../test/kit/gateway/rest-client.ts';
import { startTestGateway, type TestGateway } from '../../test/kit/gateway/test-gateway.ts';
import { VALID_BODIES } from '../../test/kit/gateway/valid-bodies.ts';

let under: TestGateway;
let send: (sent: Sent) => Promise<Received>;
beforeAll(async () => {
  under = await startTestGateway();
  send = restClient(under);
});
afterAll(() => under.stop());
afterEach(() => under.resetServices());

const VERSIONS = ['v1', '2026-07', '2026-10', 'unstable'];

describe('the list of returns', () => {
  test.each(VERSIONS)('has summaries without personal data in %s', async (version) => {
    const response = await send({ path: `/api/${version}/warehouse/returns` });
    expect([response.status, response.body]).toEqual([
      200,
      {
        returns: [
          expect.objectContaining({
            id: 11,
            order_name: '#1001',
            state: 'open',
            currency: 'GBP',
            total: '10.00',
            label_status: null,
            label_updated_at: null,
            destination_id: 31,
            presentment: {
              currency: expect.any(String),
              total: '10.00',
              refund: '10.00',
              return_credit_total: '0.00',
              handling_fee: '0.00',
            },
            created_at: expect.stringMatching(/\+00:00$/),
          }),
        ],
        next_cursor: null,
      },
    ]);
    expect(response.text).not.toMatch(/customer|@/);
  });

  test('passes its filters on', async () => {
    const requests: object[] = [];
    const fake = under.services.returns.searchReturns;
    under.services.returns.searchReturns = (request, context) => {
      requests.push(request);
      if (!fake) throw new Error('no fake');
      return fake(request, context);
    };
    const query = new URLSearchParams({
      state: 'open,closed',
      label_status: 'error',
      archived: 'include',
      destination_id: '31',
      query: '#1001',
      sort: 'updated_at',
      limit: '1',
      created_to: '2026-11-21T00:00:00Z',
      updated_from: '2026-11-20T10:00:00+01:00',
    });
    const first = await send({ path: `/api/v1/warehouse/returns?${query}` });
    expect(first.body).toMatchObject({ next_cursor: 'next' });
    expect((await send({ path: '/api/v1/warehouse/returns?cursor=next' })).status).toBe(200);
    expect(requests).toMatchObject([
      {
        summaries: true,
        states: [ReturnState.OPEN, ReturnState.CLOSED],
        query: '#1001',
        labelStatuses: [LabelStatus.ERROR],
        archived: Archived.INCLUDE,
        destinationId: 31n,
        sort: Sort.UPDATED_ASC,
        pageSize: 1,
        cursor: '',
        createdTo: { seconds: BigInt(Date.UTC(2026, 10, 21) / 1000) },
        updatedFrom: { seconds: BigInt(Date.UTC(2026, 10, 20, 9) / 1000) },
      },
      { summaries: true, sort: Sort.CREATED_DESC, pageSize: 50, cursor: 'next', states: [] },
    ]);
  });

  test.each([
    ['state=lost', /^state must be a list, separated by commas, of open, /],
    ['sort=x', /^sort must be one of -created_at, /],
    ['cursor=x', /^cursor must be a cursor returned by this service\.$/],
  ])('returns?%s is 422 and names the field', async (query, message) => {
    for (const version of VERSIONS) {
      const { status, body } = await send({ path: `/api/${version}/warehouse/returns?${query}` });
      const text = expect.stringMatching(message);
      expect({ status, body }).toMatchObject({
        status: 422,
        body: version === 'unstable' ? { detail: text } : { message: text, errors: {} },
      });
    }
  });
});

describe('labels', () => {
  const LABEL = { carrier: 'Evri', created_at: '2026-11-20T10:00:00Z' };

  function record(
    json: object = LABEL,
    headers: Record<string, string> = {},
    id: bigint = FAKE.returns.open,
  ) {
    return send({ path: `/api/v1/returns/${id}/labels`, json, headers });
  }

  /** The key that the service got. The fake service returns it as the link of the label. */
  async function keyOf(...request: Parameters<typeof record>): Promise<string> {
    const { status, body } = await record(...request);
    expect(status).toBe(201);
    return (body as { url: string }).url;
  }

  test('a new label is shown as in return details, with its ids', async () => {
    expect((await record()).body).toEqual({
      id: 51,
      return_id: 11,
      status: 'new',
      updated_at: '2026-11-20T10:00:00+00:00',
      url: expect.any(String),
      rate: null,
      carrier: 'Evri',
      tracking_number: 'EV1',
      line_items: [21],
    });
  });

  describe('the key of a label', () => {
    test('is that of the header, whatever the content is', async () => {
      const key = await keyOf(LABEL, { 'idempotency-key': 'label-1' });
      expect(await keyOf({ carrier: 'DHL' }, { 'idempotency-key': 'label-1' })).toBe(key);
      expect(await keyOf(LABEL, { 'idempotency-key': 'label-2' })).not.toBe(key);
      expect(key.length).toBeLessThanOrEqual(200);
      expect(key).not.toContain('label-1');
    });

    test('without the header is the content, so that a repeat is one label', async () => {
      const key = await keyOf();
      expect(await keyOf({ created_at: '2026-11-20T11:00:00+01:00', carrier: 'Evri' })).toBe(key);
      expect(await keyOf({ ...LABEL, tracking_number: 'EV2' })).not.toBe(key);
      expect(await keyOf(LABEL, { 'idempotency-key': key })).not.toBe(key);
    });

    test.each([
      ['empty', ''],
      ['of 201 characters', 'k'.repeat(201)],
      ['not ASCII', '\u00e9'],
    ])('is rejected when it is %s', async (_, key) => {
      expect(await record(LABEL, { 'idempotency-key': key })).toMatchObject({
        status: 422,
        body: { message: 'Idempotency-Key must have 1 to 200 ASCII characters.', errors: {} },
      });
    });

    test('may have double quotes, as in the draft of the header', async () => {
      const plain = await keyOf(LABEL, { 'idempotency-key': 'say "hi" \\\\ there' });
      const quoted = await keyOf(LABEL, { 'idempotency-key': '"say \\"hi\\" \\\\\\\\ there"' });
      expect(quoted).toBe(plain);
    });

    test.each(['"open', '"a" b', '"a\\b"', '""'])(
      'is rejected when its quotes are %s',
      async (key) => {
        expect(await record(LABEL, { 'idempotency-key': key })).toMatchObject({ status: 422 });
      },
    );

    test('with other content than before is invalid', async () => {
      expect(await record({ carrier: FAKE.otherContent })).toMatchObject({
        status: 422,
        body: {
          message:
            'Idempotency-Key was used with other content: send a new key, or the same content as before.',
          errors: {},
        },
      });
    });
  });

  test('a label of a closed return is a conflict', async () => {
    expect(await record(LABEL, {}, FAKE.returns.closed)).toMatchObject({
      status: 409,
      body: { errors: { message: 'The return is closed.' } },
    });
  });

  test('an ignored update is answered with the label as it is', async () => {
    under.services.returns.updateLabel = () => ({
      label: { id: FAKE.label, returnId: FAKE.returns.open, carrier: 'Evri' },
      ignored: true,
    });
    const json = { status: 'new', occurred_at: '2026-11-01T10:00:00Z' };
    const path = `/api/v1/labels/${FAKE.label}`;
    expect(await send({ method: 'PUT', path, json })).toMatchObject({
      status: 200,
      body: { id: 51, return_id: 11, carrier: 'Evri', status: null },
    });
  });
});

describe('gift card', () => {
  const CARD = { order_id: 7, order_name: 'Card 7', amount: '8.00', currency: 'GBP' };

  const record = (json: object, id: bigint = FAKE.returns.open) =>
    send({ path: `/api/v1/returns/${id}/gift-card`, json });

  test('a recorded gift card is shown with the id of its request', async () => {
    expect(await record(CARD)).toMatchObject({
      status: 201,
      body: { ...CARD, id: 61, return_id: 11, issued_at: '2026-11-20T10:00:00+00:00' },
    });
  });

  test('a gift card without a name has none', async () => {
    const { order_name: _, ...unnamed } = CARD;
    expect(await record(unnamed)).toMatchObject({ status: 201, body: { order_name: null } });
  });

  test('a gift card that was not requested is a conflict', async () => {
    expect(await record(CARD, FAKE.returns.closed)).toMatchObject({
      status: 409,
      body: { errors: { message: 'No gift card was requested for the return.' } },
    });
  });
});

/** Each operation, its path and the RPC that gets the key; whether the RPC also gets a key without the header. */
const KEYED: readonly [OperationId, string, string, boolean][] = [
  ['createWebhook', '/webhooks', 'webhooks.createSubscription', true],
  ['assessDispositions', '/dispositioning/assess', 'dispositions.assess', false],
  ['gradeItems', '/dispositioning/grade', 'dispositions.gradeItems', false],
  ['createFraudReport', `/returns/${FAKE.returns.open}/fraud-report`, 'fraud.createReport', false],
  ['cancelReturn', `/returns/${FAKE.returns.open}/cancel`, 'returns.cancelReturn', false],
  ['recordGiftCard', `/returns/${FAKE.returns.open}/gift-card`, 'returns.recordGiftCard', true],
  ['recordLabel', `/returns/${FAKE.returns.open}/labels`, 'returns.recordLabel', true],
  [
    'processReturn',
    `/warehouse/return/${FAKE.returns.open}/process`,
    'returns.processReturn',
    false,
  ],
  ['createCart', '/cart', 'carts.createCart', true],
];

type Behaviour = (request: { readonly idempotencyKey: string }, context: unknown) => unknown;

/** Replaces an RPC of the fake services, until they are reset. */
function replace(rpc: string, behaviour: (fake: Behaviour) => Behaviour): void {
  const [service = '', name = ''] = rpc.split('.');
  const fakes: unknown = Reflect.get(under.services, service);
  if (typeof fakes !== 'object' || fakes === null) throw new Error(`no fake of ${service}`);
  Reflect.set(fakes, name, behaviour(Reflect.get(fakes, name)));
}

function post(id: OperationId, path: string, headers: Record<string, string> = {}) {
  return send({ path: `/api/v1${path}`, json: VALID_BODIES[id] ?? {}, headers });
}

test('every operation that may have the header is here, or among those of webhooks', () => {
  const keyed = OPERATIONS.filter(
    ({ keyed, tag }) => keyed && keyed !== 'required' && tag !== 'Webhooks',
  );
  const here = new Set(KEYED.map(([id]) => id));
  expect(keyed.filter(({ id }) => !here.has(id))).toEqual([]);
});

describe.each(KEYED)('the key of %s', (id, path, rpc, alwaysKeyed) => {
  test('is that of the header, and hides its text', async () => {
    const keys: string[] = [];
    replace(rpc, (fake) => (request, context) => {
      keys.push(request.idempotencyKey);
      return fake(request, context);
    });
    for (const key of ['k-1', '"k-1"', 'k-2']) {
      const { status } = await post(id, path, { 'idempotency-key': key });
      expect(status).toBeLessThan(300);
    }
    const [first = '', quoted, other] = keys;
    expect(quoted).toBe(first);
    expect(other).not.toBe(first);
    expect(first).toMatch(/^rest:header:/);
    expect(first).not.toContain('k-1');
    await post(id, path);
    expect(keys.at(-1) !== '').toBe(alwaysKeyed);
    expect(keys.at(-1)).not.toBe(first);
  });

  test('with other content is a 422 that names the header', async () => {
    replace(rpc, () => () => {
      throw idempotencyConflict();
    });
    const message =
      'Idempotency-Key was used with other content: send a new key, or the same content as before.';
    expect(await post(id, path, { 'idempotency-key': 'k' })).toMatchObject({
      status: 422,
      body: { message, errors: {} },
    });
    const unstable = { path: `/api/unstable${path}`, json: VALID_BODIES[id] ?? {} };
    expect(await send({ ...unstable, headers: { 'idempotency-key': 'k' } })).toMatchObject({
      status: 422,
      body: { code: 'VALIDATION_FAILED', errors: [{ field: 'Idempotency-Key', message }] },
    });
  });
});

test('a repeat of a webhook that was deleted is a 422, because its secret is gone', async () => {
  replace('webhooks.createSubscription', () => () => {
    throw new DomainError(Code.NotFound, ErrorReason.SUBSCRIPTION_NOT_FOUND, 'no subscription');
  });
  expect(await post('createWebhook', '/webhooks', { 'idempotency-key': 'k' })).toMatchObject({
    status: 422,
    body: {
      message:
        'Idempotency-Key is that of a deleted webhook: send a new key to create another one.',
      errors: {},
    },
  });
});
