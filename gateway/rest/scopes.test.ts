import { create } from '@bufbuild/protobuf';
import { Code } from '@connectrpc/connect';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { z } from 'zod';
import { ErrorReason } from '../../proto/gen/rms/common/v1/error_pb.ts';
import {
  CustomerSchema,
  type Return,
  ReturnSchema,
  ReturnState,
  type Submitter,
  SubmitterSchema,
} from '../../proto/gen/rms/returns/v1/return_pb.ts';
import type { Operation, OperationId } from '../../services/contract/operation.ts';
import { OPERATIONS, PARTNER_SCOPES } from '../../services/contract/operations.ts';
import { openersAmong, type Scope } from '../../services/contract/scopes.ts';
import { isCustomerField } from '../../services/contract/views/without-customer.ts';
import { DomainError, stateForbids } from '../../services/platform/values/errors.ts';
import { FAKE, sampleReturn } from '../../test/kit/gateway/fake-objects.ts';
import { type PartnerServer, startPartnerServer } from '../../test/kit/gateway/partner-server.ts';
import { type Received, restClient, type Sent } from '../../test/kit/gateway/rest-client.ts';
import {
  startTestGateway,
  TEST_AUTHOR,
  type TestGateway,
} from '../../test/kit/gateway/test-gateway.ts';
import { keyHeader, VALID_BODIES } from '../../test/kit/gateway/valid-bodies.ts';
import { installApp } from '../tenancy/installations.ts';

const APP = 'app';
const OTHER_APP = 'another-app';

let partners: PartnerServer;
let under: TestGateway;
let send: (sent: Sent) => Promise<Received>;
beforeAll(async () => {
  partners = await startPartnerServer();
  under = await startTestGateway({
    ...partners.settings,
    FAILED_CREDENTIALS_PER_MINUTE: 100_000,
  });
  send = restClient(under);
  const { pool } = under.database;
  for (const clientId of [APP, OTHER_APP]) {
    const issuer = partners.settings.PARTNER_ISSUER;
    await installApp(pool, { shopId: 1n, issuer, clientId, by: TEST_AUTHOR });
  }
});
afterEach(() => under.resetServices());
afterAll(async () => {
  await under?.stop();
  partners?.stop();
});

const keyWith = (...scopes: Scope[]) => under.newKey({ scopes });

async function tokenWith(scope: string, clientId = APP): Promise<Partial<Sent>> {
  const token = await partners.token({ clientId, scope });
  return { key: null, headers: { authorization: `Bearer ${token}` } };
}

function requestOf(operation: Operation): Sent {
  const { id, method, path } = operation;
  const object = path.startsWith('/webhook-replays') ? FAKE.replay : undefined;
  const at = new Map([
    ['/webhooks', FAKE.webhook],
    ['/destinations', FAKE.destination],
    ['/labels', FAKE.label],
  ]);
  const known = object ?? at.get(`/${path.split('/')[1]}`) ?? FAKE.returns.open;
  const named = path
    .replace('{id}', String(known))
    .replace('{token}', FAKE.cartToken)
    .replace('{delivery_id}', FAKE.delivery);
  const queries: Partial<Record<OperationId, string>> = {
    getReturnDetails: `?return_id=${FAKE.returns.open}`,
    getEligibility: '?order_name=%231001',
  };
  const json = VALID_BODIES[id];
  return {
    method,
    path: `/api/v1${named}${queries[id] ?? ''}`,
    ...(json && { json }),
  };
}

/** Sends the operation's request with a credential. */
const sendWith = (of: Operation, credential: Partial<Sent>) =>
  send({ ...requestOf(of), ...credential, headers: { ...keyHeader(of), ...credential.headers } });

function operation(id: OperationId): Operation {
  const found = OPERATIONS.find((one) => one.id === id);
  if (!found) throw new Error(`no operation ${id}`);
  return found;
}

/** Lets the fake service find the sample return with these fields. */
function showReturn(fields: Partial<Return> = {}): void {
  const found = { ...create(ReturnSchema, sampleReturn()), ...fields };
  under.services.returns.findReturn = () => ({ return: found });
}

const by = (one: Submitter['by']): Submitter => create(SubmitterSchema, { by: one });

const details = (o: Partial<Sent>) => send({ ...requestOf(operation('getReturnDetails')), ...o });
const cancel = (o: Partial<Sent>) => send({ ...requestOf(operation('cancelReturn')), ...o });

describe.each(OPERATIONS)('$id', (of) => {
  const takesTokens = of.credentials === 'bearer-or-api-key';

  test('is opened by tokens with one of its scopes, if it takes tokens, and by no other', async () => {
    // What a storefront submitted, so that `returns:submit` reaches it.
    showReturn({ submitter: by({ case: 'app', value: APP }) });
    for (const scope of PARTNER_SCOPES) {
      const { status } = await sendWith(of, await tokenWith(scope));
      const opened = takesTokens && openersAmong([scope], of).length > 0;
      const refused = takesTokens && of.forbidden === 'message-403' ? 403 : 401;
      expect([scope, status]).toEqual([scope, opened ? of.success.status : refused]);
    }
  });

  const nonsense = { authorization: 'Bearer nonsense' };

  test('reads the right header when a request has both', async () => {
    const earlier = await keyWith('returns', 'carts', 'destinations:read', 'destinations:write');
    const alone = await sendWith(of, { key: earlier });
    const both = await sendWith(of, { key: earlier, headers: nonsense });
    const isAsAlone = !takesTokens || of.earlierKeysFirst === true;
    expect(both.status).toBe(isAsAlone ? alone.status : 401);
    const later = { ...requestOf(of), key: under.key, headers: nonsense };
    const { status, headers } = await send(later);
    expect(status).toBe(takesTokens ? 401 : of.success.status);
    if (takesTokens) expect(headers['www-authenticate']).toContain('error="invalid_token"');
  });

  const seen = of.success.schema;
  const named = seen ? namesIn(z.toJSONSchema(seen, { unrepresentable: 'any' })) : [];
  test('names each field about the customer as such', () => {
    // A change of this kind of names belongs to `CUSTOMER_FIELDS`, too.
    const about = /customer|shopper|mail|first_name|last_name|phone|status_page/;
    const others = ['customer_uploads', 'from_email'];
    const unknown = named.filter((name) => about.test(name) && !isCustomerField(name));
    expect(unknown.filter((name) => !others.includes(name))).toEqual([]);
  });

  if (!openersAmong(['warehouse'], of).includes('warehouse')) return;
  test('shows no customer to warehouse, and all that returns sees otherwise', async () => {
    showReturn(KNOWN);
    const whole = await sendWith(of, { key: await keyWith('returns') });
    const key = await keyWith('warehouse', 'carts');
    for (const credential of [{ key }, await tokenWith('warehouse')]) {
      const { status, body, text } = await sendWith(of, credential);
      expect(status).toBe(of.success.status);
      expect(text).not.toMatch(/ada|lovelace|status\.example/i);
      expect(body).toEqual(masked(whole.body));
    }
  });
});

/** All that says who the customer is. */
const KNOWN = {
  customer: create(CustomerSchema, {
    email: 'ada@example.com',
    firstName: 'Ada',
    lastName: 'Lovelace',
  }),
  statusPageUrl: 'https://status.example/11',
};

const MASKED = ['customer', 'customer_email', 'customer_first_name', 'customer_last_name'];

function masked(body: unknown): unknown {
  if (typeof body !== 'object' || body === null || Array.isArray(body)) return body;
  const hidden = [...MASKED, 'status_page_url'].filter((name) => name in body);
  return { ...body, ...Object.fromEntries(hidden.map((name) => [name, null])) };
}

/** The names of all properties in a JSON schema. */
function namesIn(schema: unknown): string[] {
  if (typeof schema !== 'object' || schema === null) return [];
  const { properties } = schema as { readonly properties?: object };
  const own = Object.keys(properties ?? {});
  return [...own, ...Object.values(schema).flatMap(namesIn)];
}

describe('details with warehouse', () => {
  test('have the customer when another scope of the key shows the whole return', async () => {
    showReturn(KNOWN);
    for (const other of ['returns', 'returns:read'] as const) {
      const { body } = await details({ key: await keyWith('warehouse', other) });
      expect(body).toMatchObject({
        customer: 'ada@example.com',
        status_page_url: expect.any(String),
      });
    }
  });

  test('and returns:submit have the customer of what storefronts submitted, and of nothing else', async () => {
    const key = await keyWith('warehouse', 'returns:submit');
    showReturn(KNOWN);
    expect((await details({ key })).body).toMatchObject({ id: 11, customer: null });
    showReturn({ ...KNOWN, submitter: by({ case: 'storefrontKey', value: true }) });
    expect((await details({ key })).body).toMatchObject({ customer: 'ada@example.com' });
  });
});

describe('returns:submit', () => {
  const BY = {
    'a key with returns, or gRPC': undefined,
    'a key without returns': by({ case: 'storefrontKey', value: true }),
    'the app': by({ case: 'app', value: APP }),
    'another app': by({ case: 'app', value: OTHER_APP }),
  };
  type By = keyof typeof BY;

  const REACHED: readonly [credential: string, () => Promise<Partial<Sent>>, By | undefined][] = [
    ['a key', async () => ({ key: await keyWith('returns:submit') }), 'a key without returns'],
    ['a token', () => tokenWith('returns:submit'), 'the app'],
    ['a token of another app', () => tokenWith('returns:submit', OTHER_APP), 'another app'],
  ];

  describe.each(REACHED)('of %s', (_, credential, own) => {
    test.each(Object.keys(BY) as By[])('and what %s submitted', async (who) => {
      const submitter = BY[who];
      let cancelled = 0;
      showReturn(submitter && { submitter });
      under.services.returns.cancelReturn = () => {
        cancelled += 1;
        return { return: { ...sampleReturn(), state: ReturnState.CANCELLED } };
      };
      const [shown, ended] = [await details(await credential()), await cancel(await credential())];
      const isReached = who === own;
      expect([shown.status, ended.status, cancelled]).toEqual(
        isReached ? [200, 200, 1] : [404, 404, 0],
      );
      if (isReached) return;
      under.resetServices();
      const absent = (path: string) => path.replace(String(FAKE.returns.open), '999');
      const missing = await details({
        ...(await credential()),
        path: absent(requestOf(operation('getReturnDetails')).path),
      });
      expect([shown.text, shown.headers['x-service-hint']]).toEqual([
        missing.text,
        missing.headers['x-service-hint'],
      ]);
    });
  });

  test('searches an order among what it reaches, so that a newer return of others hides nothing', async () => {
    const asked: unknown[] = [];
    under.services.returns.findReturn = ({ submitter }) => {
      asked.push(submitter?.by);
      const found = create(ReturnSchema, sampleReturn());
      return { return: { ...found, ...(submitter && { submitter }) } };
    };
    const path = '/api/v1/warehouse/return/details?order_name=%231001';
    for (const more of [[], ['warehouse'], ['returns:read']] as const) {
      await send({ path, key: await keyWith('returns:submit', ...more) });
    }
    await send({ path, ...(await tokenWith('returns:submit')) });
    expect(asked).toEqual([
      { case: 'storefrontKey', value: true },
      undefined,
      undefined,
      { case: 'app', value: APP },
    ]);
  });

  test('is not widened by returns:read to cancel the returns of others', async () => {
    const key = await keyWith('returns:submit', 'returns:read');
    expect((await details({ key })).status).toBe(200);
    expect((await cancel({ key })).status).toBe(404);
    expect((await cancel({ key: await keyWith('returns') })).status).toBe(200);
  });
});

describe('cancel return', () => {
  test('passes the reason on, and returns the details', async () => {
    const reasons: string[] = [];
    under.services.returns.cancelReturn = ({ reason }) => {
      reasons.push(reason);
      return { return: { ...sampleReturn(), state: ReturnState.CANCELLED } };
    };
    for (const json of [{ reason: 'Kept' }, {}, undefined]) {
      const { path } = requestOf(operation('cancelReturn'));
      const { status, body } = await send({ method: 'POST', path, ...(json && { json }) });
      expect([status, body]).toMatchObject([200, { id: 11, state: 'cancelled' }]);
    }
    expect(reasons).toEqual(['Kept', '', '']);
  });

  test('of a return that is cancelled already is the same 200', async () => {
    showReturn({ state: ReturnState.CANCELLED });
    under.services.returns.cancelReturn = () => {
      throw stateForbids('the return is cancelled');
    };
    expect(await cancel({})).toMatchObject({ status: 200, body: { state: 'cancelled' } });
  });

  test('of a return that can no longer be cancelled is a 409 with a code', async () => {
    under.services.returns.cancelReturn = () => {
      throw stateForbids('the return is closed');
    };
    expect(await cancel({})).toMatchObject({
      status: 409,
      body: { errors: { code: 'NOT_CANCELLABLE', message: 'The return is closed.' } },
    });
    const unstable = requestOf(operation('cancelReturn')).path.replace('v1', 'unstable');
    expect(await cancel({ path: unstable })).toMatchObject({
      status: 409,
      body: { code: 'NOT_CANCELLABLE', status: 409 },
    });
  });

  test('of a return that does not exist is 404', async () => {
    under.services.returns.findReturn = () => {
      throw new DomainError(Code.NotFound, ErrorReason.RETURN_NOT_FOUND, 'no return');
    };
    expect(await cancel({})).toMatchObject({
      status: 404,
      body: { errors: { message: 'No return has this ID.' } },
    });
  });
});

describe('the timeline', () => {
  const { path } = requestOf(operation('getReturnTimeline'));

  test('has its entries, and a cursor while there are more', async () => {
    const key = await keyWith('returns:read');
    const entry = {
      id: 7,
      occurred_at: '2026-11-20T10:00:00+00:00',
      kind: 'note',
      text: 'Looked',
      author: 'Ada',
      author_kind: 'user',
      facts: { a: 'b' },
    };
    expect((await send({ path, key })).body).toEqual({ timeline: [entry], next_cursor: null });
    const first = await send({ path: `${path}?limit=1`, key });
    expect(first.body).toEqual({ timeline: [entry], next_cursor: 'next' });
    const last = await send({ path: `${path}?limit=1&cursor=next`, key });
    expect(last.body).toEqual({ timeline: [entry], next_cursor: null });
  });

  test('is read 50 entries at a time unless the limit is from 1 to 100', async () => {
    const sizes: number[] = [];
    under.services.returns.getTimeline = ({ pageSize }) => {
      sizes.push(pageSize);
      return { entries: [], nextCursor: '' };
    };
    for (const query of ['', '?limit=1', '?limit=100']) {
      expect((await send({ path: `${path}${query}` })).status).toBe(200);
    }
    expect(sizes).toEqual([50, 1, 100]);
    for (const limit of ['0', '101', 'x']) {
      expect((await send({ path: `${path}?limit=${limit}` })).status).toBe(422);
    }
    under.resetServices();
    expect((await send({ path: `${path}?cursor=x` })).status).toBe(422);
  });

  test('says that a return was reported, and not by whom or why', async () => {
    under.services.returns.getTimeline = ({ returnId }) => ({
      entries: [
        {
          ...{ id: 9n, returnId, occurredAt: { seconds: 1n }, kind: 'fraud_report.created' },
          ...{ text: 'Reported', author: 'Ada', facts: { category: 'other', comment: 'odd' } },
        },
      ],
      nextCursor: '',
    });
    const { body, text } = await send({ path });
    expect(body).toMatchObject({ timeline: [{ text: 'Reported', author: null, facts: {} }] });
    expect(text).not.toMatch(/odd|Ada/);
  });
});
