import { randomUUID } from 'node:crypto';
import { Code } from '@connectrpc/connect';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { ErrorReason } from '../../proto/gen/rms/common/v1/error_pb.ts';
import { SubscriptionStatus } from '../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { OPERATIONS } from '../../services/contract/operations.ts';
import { DomainError } from '../../services/platform/values/errors.ts';
import { FAKE, sampleSubscription } from '../../test/kit/gateway/fake-objects.ts';
import { type Received, restClient, type Sent } from '../../test/kit/gateway/rest-client.ts';
import { startTestGateway, type TestGateway } from '../../test/kit/gateway/test-gateway.ts';
import { pathHint } from './hints.ts';

describe('hints', () => {
  // Headers of errors that say what to do.
  let under: TestGateway;
  let send: (sent: Sent) => Promise<Received>;
  beforeAll(async () => {
    under = await startTestGateway();
    send = restClient(under);
  });
  afterEach(() => under.resetServices());
  afterAll(() => under?.stop());

  const WEBHOOKS = '/api/v1/webhooks';
  const ASSESS = { path: '/api/v1/dispositioning/assess', json: { items: [{ line_item_id: 21 }] } };

  test.each([
    [401, { path: WEBHOOKS }, 'developer_tools'],
    [403, ASSESS, 'returns'],
  ])('a %d for a key without the scope names the scope', async (status, sent, scope) => {
    const response = await send({ ...sent, key: await under.newKey({ scopes: [] }) });
    expect(response.status).toBe(status);
    expect(response.headers['www-authenticate']).toBe(
      `ApiKey realm="rms", header="X-Authorization", error="insufficient_scope", scope="${scope}"`,
    );
  });

  test('a key at a wrong place is answered with the right one', async () => {
    const authorization = `Bearer ${under.key}`;
    const response = await send({ path: WEBHOOKS, key: null, headers: { authorization } });
    expect(response.status).toBe(401);
    expect(response.headers['www-authenticate']).toContain(
      'error_description="send the key alone in X-Authorization, not in Authorization"',
    );
  });

  test('a bare # in an address is answered with how to write it', async () => {
    const { status, body } = await send({ path: '/api/v1/warehouse/return/details?order_name=' });
    const message = 'order_name must not be empty; in an address, write # as %23.';
    expect({ status, body }).toEqual({ status: 422, body: { message, errors: {} } });
  });

  test.each(['/webhooks', '/v1/webhooks', '/API/v1/webhooks', '/api/v1/nothing', '/api/nothing'])(
    'the 404 of the unknown path %s links to the documents',
    async (path) => {
      const { status, headers } = await send({ path });
      expect(status).toBe(404);
      const links = [...String(headers.link).matchAll(/<([^>]+)>; rel="([\w-]+)"/g)];
      expect(links.map(([, , rel]) => rel)).toEqual(['service-desc', 'service-doc', 'help']);
    },
  );

  test('an order name without # is answered with what may be meant', async () => {
    const path = '/api/v1/warehouse/return/details?order_name=';
    const { status, headers } = await send({ path: `${path}no%20such` });
    const hint = 'names of orders usually begin with #: try order_name=%23no%20such';
    expect(status).toBe(404);
    expect(headers['x-service-hint']).toContain(hint);
    const other = await send({ path: `${path}%23no` });
    expect([other.status, other.headers['x-service-hint']]).toEqual([
      404,
      'the shop of this key has no return with this order_name: list them with GET /warehouse/returns?archived=include',
    ]);
  });

  test.each([
    ['/api/2026-10/webhooks/', 'remove the / at the end of the path: /api/2026-10/webhooks'],
    ['/api/2026-10/webhook', 'did you mean /api/2026-10/webhooks?'],
    ['/webhooks', 'did you mean /api/2026-10/webhooks?'],
    ['/api/v9/webhooks/12', 'did you mean /api/2026-10/webhooks/12?'],
    ['/api/2026-10/nothing', undefined],
  ])('the 404 of %s says what may be meant', async (path, hint) => {
    const { status, headers } = await send({ path });
    expect([status, headers['x-service-hint']]).toEqual([404, hint]);
  });

  describe('X-Service-Hint', () => {
    const hintOf = async (sent: Sent) => (await send(sent)).headers['x-service-hint'];

    test('names an unknown field and an unknown parameter, which are ignored', async () => {
      const json = { from: '2026-11-20T10:00:00Z', webhook: 7 };
      const preview = await send({ path: '/api/2026-10/webhook-replay-previews?dry=1', json });
      expect(preview.status).toBe(200);
      expect(preview.headers['x-service-hint']).toBe(
        'webhook is no field of this operation and was ignored; did you mean webhook_id?; dry is no parameter of this operation and was ignored',
      );
      expect(await hintOf({ path: '/api/v1/warehouse/returns?updated_since=x' })).toBe(
        'updated_since is no parameter of this operation and was ignored; did you mean updated_from?',
      );
    });

    test('a filter with a mistyped name is ignored with a hint, and rejected in unstable', async () => {
      const { status, headers } = await send({
        path: '/api/2026-10/warehouse/returns?State=closed',
      });
      expect([status, headers['x-service-hint']]).toEqual([
        200,
        'State is no parameter of this operation and was ignored; did you mean state?',
      ]);
      const unstable = await send({ path: '/api/unstable/warehouse/returns?State=closed&page=2' });
      const message = 'State is no parameter of this operation: did you mean state?';
      expect(unstable.status).toBe(422);
      expect(unstable.body).toMatchObject({
        detail: message,
        errors: [{ field: 'State', message }],
      });
      expect(unstable.headers['x-service-hint']).toBeUndefined();
      const listed = await send({ path: '/api/unstable/warehouse/returns?state[]=closed&page=2' });
      expect([listed.status, listed.headers['x-service-hint']]).toEqual([
        200,
        expect.stringMatching(/^page is no parameter/),
      ]);
    });

    test('is also in an error', async () => {
      const { status, headers } = await send({ path: WEBHOOKS, json: { topics: 'return' } });
      expect(status).toBe(422);
      expect(headers['x-service-hint']).toContain('did you mean topic?');
    });

    test.each([
      ['GET', 'abc'],
      ['PUT', '%23a'],
      ['DELETE', '01'],
    ])('%s says that the id %s is no number', async (method, id) => {
      const json = {
        topic: 'return',
        trigger: 'return.closed',
        url: 'https://hooks.example.com/x',
      };
      const path = `${WEBHOOKS}/${id}`;
      const { status, headers } = await send({ method, path, ...(method === 'PUT' && { json }) });
      expect(status).toBe(404);
      expect(headers['x-service-hint']).toBe(
        'the id in the path must be a whole number from 1 to 9007199254740991',
      );
    });

    test.each([
      ['return_id=abc', 'return_id must be a whole number from 1 to 9007199254740991'],
      ['provider_order_id=%231001', 'provider_order_id must be a whole number'],
      [`order_name=%23${'1'.repeat(191)}`, 'order_name must be at most 191 characters'],
    ])('says why no return can have %s', async (query, hint) => {
      const { status, body, headers } = await send({
        path: `/api/v1/warehouse/return/details?${query}`,
      });
      expect([status, body]).toEqual([
        404,
        { errors: { message: 'No return found with this ID.' } },
      ]);
      expect(headers['x-service-hint']).toContain(hint);
    });

    const returns = 'list them with GET /warehouse/returns?archived=include';
    test.each([
      ['GET', '/webhooks/987', 'no webhook 987: list them with GET /webhooks'],
      ['DELETE', '/webhooks/987/secret/previous', 'no webhook 987: list them with GET /webhooks'],
      [
        'POST',
        `/webhooks/${FAKE.webhook}/deliveries/msg_${randomUUID()}/replay`,
        `list them with GET /webhooks/${FAKE.webhook}/deliveries`,
      ],
      ['GET', '/webhook-replays/987', 'no replay 987: list them with GET /webhook-replays'],
      ['GET', '/destinations/987', 'no destination 987: list them with GET /destinations'],
      ['POST', '/warehouse/return/987/process', `no return 987: ${returns}`],
      ['GET', '/returns/987/effects', `no return 987: ${returns}`],
      [
        'GET',
        '/warehouse/return/details?return_id=987',
        `no return with this return_id: ${returns}`,
      ],
      ['GET', `/cart/${'x'.repeat(43)}`, 'no cart with this token: carts expire'],
    ])('says what the shop has not, and where its ids are: %s %s', async (method, path, hint) => {
      const { status, headers } = await send({ method, path: `/api/2026-10${path}` });
      expect(status).toBe(404);
      expect(headers['x-service-hint']).toMatch(/^the shop of this key has no /);
      expect(headers['x-service-hint']).toContain(hint);
    });

    test('says what the id of a delivery is', async () => {
      const path = `${WEBHOOKS}/${FAKE.webhook}/deliveries/41/replay`;
      expect(await hintOf({ method: 'POST', path })).toBe(
        'the id of a delivery is its webhook-id: msg_ and a UUID in lower case',
      );
    });

    test('of an update says that the new topic never delivers the trigger', async () => {
      const json = { topic: 'label', trigger: 'return.closed', url: 'https://hooks.example.com/x' };
      expect(await hintOf({ method: 'PUT', path: `${WEBHOOKS}/${FAKE.webhook}`, json })).toBe(
        'Topic label never delivers return.closed. It delivers label.created, label.updated.',
      );
    });

    test('of an update names the webhook to which it became equal', async () => {
      const subscription = { ...sampleSubscription(), delivers: true };
      under.services.webhooks.updateSubscription = () => ({
        subscription,
        equalSubscriptionIds: [12n],
      });
      const json = {
        topic: 'return',
        trigger: 'return.closed',
        url: 'https://hooks.example.com/x',
      };
      expect(await hintOf({ method: 'PUT', path: `${WEBHOOKS}/${FAKE.webhook}`, json })).toContain(
        'Webhook 12 has the same address, topic and trigger',
      );
    });

    test('of an update says that the webhook stays inactive', async () => {
      const subscription = { ...sampleSubscription(), status: SubscriptionStatus.INACTIVE };
      under.services.webhooks.updateSubscription = () => ({ subscription });
      const json = {
        topic: 'return',
        trigger: 'return.closed',
        url: 'https://hooks.example.com/x',
      };
      const update = (status?: string) =>
        hintOf({ method: 'PUT', path: `${WEBHOOKS}/${FAKE.webhook}`, json: { ...json, status } });
      expect(await update()).toBe(
        'the webhook stays inactive and gets no events; status active activates it',
      );
      expect(await update('inactive')).toBeUndefined();
    });

    test.each([
      ['/webhooks/12', { status: 'active' }, 'an update needs all of topic, trigger, url'],
      ['/destinations/12', { enabled: true }, 'an update needs name'],
    ])('of an update of %s names all fields that it needs', async (path, json, hint) => {
      const { status, headers } = await send({ method: 'PUT', path: `/api/v1${path}`, json });
      expect([status, headers['x-service-hint']]).toEqual([422, hint]);
    });

    test.each(['test', 'deliveries/retry'])('of an inactive webhook: %s', async (action) => {
      const forbid = () => {
        throw new DomainError(Code.FailedPrecondition, ErrorReason.STATE_FORBIDS, 'is inactive');
      };
      under.services.webhooks.sendTest = forbid;
      under.services.webhooks.retryDeliveries = forbid;
      const path = `${WEBHOOKS}/${FAKE.webhook}/${action}`;
      expect(await hintOf({ method: 'POST', path })).toBe(
        `activate it first: PUT /webhooks/${FAKE.webhook} with its fields and status active`,
      );
    });

    test('says which version served when the path has none', async () => {
      for (const key of [under.key, null]) {
        expect(await hintOf({ path: '/api/webhooks', key })).toBe(
          'no version in the path: 2026-07 was used; name one, such as /api/2026-10',
        );
      }
    });

    test.each([
      ['{"topic":"return",}', 'the body is not JSON from character 19 on'],
      ["{'topic':'return'}", 'the body is not JSON from character 2 on'],
      ['{"topic":', 'the body ends too early'],
    ])('says where %s is not JSON', async (raw, hint) => {
      const headers = { 'content-type': 'application/json' };
      const { status, headers: answered } = await send({ path: WEBHOOKS, raw, headers });
      expect([status, answered['x-service-hint']]).toEqual([400, hint]);
    });

    test('says that a body was ignored where there is none', async () => {
      const retry = `${WEBHOOKS}/${FAKE.webhook}/deliveries/retry`;
      const ignored = 'this operation has no body, and the one that was sent was ignored';
      expect(await hintOf({ path: retry, json: { states: ['exhausted'] } })).toBe(ignored);
      const raw = JSON.stringify({ topic: 'return' });
      expect(await hintOf({ method: 'DELETE', path: `${WEBHOOKS}/${FAKE.webhook}`, raw })).toBe(
        ignored,
      );
      // Some clients always send an object.
      expect(await hintOf({ path: retry, json: {} })).toBeUndefined();
    });

    test('of a retry says that a paused webhook gets one delivery first', async () => {
      const { health, ...others } = sampleSubscription();
      const subscription = {
        ...others,
        health: { ...health, pausedSince: others.createdAt },
        backlog: { count: 9, more: false },
      };
      under.services.webhooks.getSubscription = () => ({ subscription });
      const path = `${WEBHOOKS}/${FAKE.webhook}/deliveries/retry`;
      const { body, headers } = await send({ method: 'POST', path });
      expect(body).toEqual({ deliveries: 4, more: false, waiting: 9 });
      expect(headers['x-service-hint']).toContain('the webhook is paused');
    });

    test('is absent when nothing is wrong', async () => {
      for (const path of [WEBHOOKS, '/api/2026-10/warehouse/returns?limit=1']) {
        expect(await hintOf({ path })).toBeUndefined();
      }
    });
  });

  test.each(['/api/2026-10/nothing', '/api/9999-01/webhooks', '/api/unstable/nothing', WEBHOOKS])(
    'an error of %s links to its explanation',
    async (path) => {
      const { headers } = await send({ path, key: null });
      const [, page = '', code = ''] = /<([^#>]+)#(\w+)>; rel="help"/.exec(`${headers.link}`) ?? [];
      const { status, text, headers: pageHeaders } = await send({ path: page });
      expect(status).toBe(200);
      expect(text).toContain(`<h2 id="${code}">`);
      expect(pageHeaders['content-security-policy']).toContain("default-src 'none'");
    },
  );
});

const TODAY = new Date('2026-11-20T00:00:00Z');
const hint = (target: string) => pathHint(target, TODAY);
const REMOVE = 'remove the / at the end of the path: ';

describe('the hint of an unknown path', () => {
  test.each([
    ['/api/2026-10/webhooks/', '/api/2026-10/webhooks'],
    ['/api/v1/webhooks/12/?limit=1', '/api/v1/webhooks/12'],
    ['/api/unstable/warehouse/returns//', '/api/unstable/warehouse/returns'],
  ])('removes the / at the end: %s', (target, path) => {
    expect(hint(target)).toBe(`${REMOVE}${path}`);
  });

  test.each([
    // A mistyped name.
    ['/api/2026-10/webhook', '/api/2026-10/webhooks'],
    ['/api/2026-10/Webhooks', '/api/2026-10/webhooks'],
    ['/api/2026-10//webhooks', '/api/2026-10/webhooks'],
    ['/api/2026-10/web-hooks/12/deliverys', '/api/2026-10/webhooks/12/deliveries'],
    ['/api/2026-10/webhooks/12/rotate', '/api/2026-10/webhooks/12/secret/rotate'],
    ['/api/2026-10/webhooks/12/retry', '/api/2026-10/webhooks/12/deliveries/retry'],
    ['/api/2026-10/carts', '/api/2026-10/cart'],
    ['/api/2026-10/destination/3', '/api/2026-10/destinations/3'],
    // A part that was left out.
    ['/api/2026-10/warehouse/return', '/api/2026-10/warehouse/return/details'],
    ['/api/2026-10/return/details', '/api/2026-10/warehouse/return/details'],
    ['/api/2026-10/return/7/process', '/api/2026-10/warehouse/return/7/process'],
    // One return.
    ['/api/2026-10/returns/7', '/api/2026-10/warehouse/return/details?return_id=7'],
    ['/api/2026-10/warehouse/return/7', '/api/2026-10/warehouse/return/details?return_id=7'],
    // The version.
    ['/api/v2/webhooks', '/api/2026-10/webhooks'],
    ['/api/2026-9/webhooks', '/api/2026-10/webhooks'],
    ['/api/latest/webhooks/12', '/api/2026-10/webhooks/12'],
    // Outside of /api.
    ['/webhooks', '/api/2026-10/webhooks'],
    ['/v1/webhooks', '/api/v1/webhooks'],
    ['/API/v1/webhooks', '/api/v1/webhooks'],
    ['https://returns.example.com/api/v1/webhook', '/api/v1/webhooks'],
  ])('names what is meant: %s', (target, path) => {
    expect(hint(target)).toBe(`did you mean ${path}?`);
  });

  test('leaves an id open that the path lacks', () => {
    expect(hint('/api/2026-10/deliveries')).toBe(
      'did you mean /api/2026-10/webhooks/{id}/deliveries?',
    );
  });

  test.each([
    '/',
    '/api',
    '/api/2026-10',
    '/api/2026-10/12',
    '/api/2026-10/nothing',
    '/webhook',
    '/api/2026-10/webhooks/12/replays',
    '/api/2026-10/webhooks/new',
    '/favicon.ico',
    `/api/v1/webhooks/${'x'.repeat(200)}`,
  ])('is absent when nothing is similar: %s', (target) => {
    expect(hint(target)).toBeUndefined();
  });

  test('is in ASCII, whatever the path is', () => {
    expect(hint('/api/2026-10/webhöoks\r\n')).toMatch(/^[\x20-\x7e]*$/);
  });

  test('knows the path of every operation', () => {
    for (const { path } of OPERATIONS) {
      expect(hint(`/api/v1${path.replaceAll(/\{\w+\}/g, '5')}/`)).toMatch(
        new RegExp(`^${REMOVE}/api/v1/`),
      );
    }
  });
});
