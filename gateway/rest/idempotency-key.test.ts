import { Code } from '@connectrpc/connect';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { ErrorReason } from '../../proto/gen/rms/common/v1/error_pb.ts';
import type { OperationId } from '../../services/contract/operation.ts';
import { OPERATIONS } from '../../services/contract/operations.ts';
import { DomainError } from '../../services/platform/errors.ts';
import { idempotencyConflict } from '../../services/platform/idempotency.ts';
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
afterEach(() => under.resetServices());
afterAll(() => under.stop());

/** Each operation, its path and the RPC that gets the key; whether the RPC also gets a key without the header. */
const KEYED: readonly [OperationId, string, string, boolean][] = [
  ['createWebhook', '/webhooks', 'webhooks.createSubscription', true],
  ['assessDispositions', '/dispositioning/assess', 'dispositions.assess', false],
  ['gradeItems', '/dispositioning/grade', 'dispositions.gradeItems', false],
  ['createFraudReport', `/returns/${FAKE.returns.open}/fraud-report`, 'fraud.createReport', false],
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

test('every operation that takes the header is here, or among those of webhooks', () => {
  const keyed = OPERATIONS.filter(({ keyed, tag }) => keyed && tag !== 'Webhooks');
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
