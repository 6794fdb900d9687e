import { Code, ConnectError } from '@connectrpc/connect';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { type Received, restClient, type Sent } from '../../test/kit/gateway/rest-client.ts';
import { startTestGateway, type TestGateway } from '../../test/kit/gateway/test-gateway.ts';

describe('versions', () => {
  let under: TestGateway;
  let send: (sent: Sent) => Promise<Received>;
  const urls: Record<string, string> = {};

  beforeAll(async () => {
    under = await startTestGateway();
    send = restClient(under);
    for (const day of ['2026-07-15', '2027-08-01', '2027-11-01', '2028-02-01']) {
      urls[day] = (await under.gateway.listenAt(new Date(day))).url;
    }
  });
  afterAll(() => under.stop());

  const at = (day: string, sent: Sent): Promise<Received> =>
    send({ ...sent, baseUrl: urls[day] ?? '' });
  const INVALID: readonly Sent[] = [
    { path: '/nothing' },
    { method: 'PATCH', path: '/webhooks' },
    { path: '/webhooks', key: null },
    { path: '/cart', raw: '{' },
    { path: '/cart', json: {} },
    { method: 'DELETE', path: '/webhooks/999' },
  ];

  describe('the version that serves', () => {
    test.each([
      ['v1', '2026-07'],
      ['2026-07', '2026-07'],
      ['2026-10', '2026-10'],
      ['unstable', 'unstable'],
    ])('%s is served by %s, including errors', async (requested, served) => {
      for (const sent of [{ path: '/webhooks' }, ...INVALID]) {
        const { headers } = await send({ ...sent, path: `/api/${requested}${sent.path}` });
        expect(headers['x-service-api-version']).toBe(served);
        expect(headers['x-service-api-warning']).toBe(
          served === 'unstable'
            ? 'The unstable version may change without notice and must not be used in production.'
            : undefined,
        );
        expect(headers['cache-control']).toBe('no-store');
        expect(headers).not.toHaveProperty('etag');
        expect(headers).not.toHaveProperty('sunset');
      }
    });

    test('without a version in the path, the oldest supported version serves', async () => {
      const response = await send({ path: '/api/webhooks' });
      expect(response).toMatchObject({
        status: 200,
        headers: { 'x-service-api-version': '2026-07' },
      });
      const later = await at('2027-11-01', { path: '/api/webhooks' });
      expect(later.headers['x-service-api-version']).toBe('2026-10');
    });

    test('an unknown version is 404 with the list of versions, even without a key', async () => {
      for (const version of ['2026-08', '2019-01', 'v2', 'v0']) {
        const response = await send({ path: `/api/${version}/webhooks`, key: null });
        expect(response).toMatchObject({
          status: 404,
          body: { message: expect.stringContaining('2026-07, 2026-10, unstable'), errors: {} },
        });
      }
    });

    test('an unreleased version is unknown', async () => {
      expect((await at('2026-07-15', { path: '/api/2026-10/webhooks' })).status).toBe(404);
    });
  });

  describe('the lifecycle', () => {
    test('a deprecated version has headers with its sunset date', async () => {
      const response = await at('2027-08-01', { path: '/api/v1/webhooks', key: null });
      expect(response).toMatchObject({
        status: 401,
        headers: {
          sunset: 'Fri, 01 Oct 2027 00:00:00 GMT',
          deprecation: '@1814400000',
          link: expect.stringContaining('/docs/changelog'),
        },
      });
      const active = await at('2027-08-01', { path: '/api/2026-10/webhooks' });
      expect(active.headers).not.toHaveProperty('sunset');
    });

    test('requests to a sunset version are served by the oldest supported version', async () => {
      const response = await at('2027-11-01', {
        path: '/api/2026-07/warehouse/return/details?return_id=11',
      });
      expect(response).toMatchObject({
        status: 200,
        body: { line_items: [{ condition: { condition_category: { grade: 'a' } } }] },
        headers: {
          'x-service-api-version': '2026-10',
          link: expect.stringContaining('rel="successor-version"'),
        },
      });
    });

    test('the alias v1 ends with its version', async () => {
      const response = await at('2027-11-01', { path: '/api/v1/webhooks' });
      expect(response).toMatchObject({
        status: 404,
        body: { message: expect.stringContaining('2026-10') },
      });
    });

    test('the newest version stays deprecated until there is a newer one', async () => {
      const response = await at('2028-02-01', { path: '/api/2026-10/webhooks' });
      expect(response).toMatchObject({
        status: 200,
        headers: { sunset: 'Sat, 01 Jan 2028 00:00:00 GMT' },
      });
    });
  });

  describe('unstable', () => {
    test.each(INVALID)('%j is a problem document', async (sent) => {
      const response = await send({ ...sent, path: `/api/unstable${sent.path}` });
      expect(response.headers['content-type']).toBe('application/problem+json');
      expect(response.body).toMatchObject({
        type: expect.any(String),
        title: expect.any(String),
        status: response.status,
        detail: expect.any(String),
        code: expect.stringMatching(/^[A-Z_]+$/),
        errors: expect.any(Array),
      });
    });

    test('errors have the invalid fields and the codes of the interface', async () => {
      const path = '/api/unstable/webhooks';
      const fields = await send({ path, json: { topic: 'x' } });
      expect(fields.body).toMatchObject({
        errors: expect.arrayContaining([{ field: 'topic', message: expect.any(String) }]),
      });
      const json = { topic: 'return', trigger: 'return.closed', url: 'ftp://x' };
      expect((await send({ path, json })).body).toMatchObject({ code: 'FAILED_TO_CREATE_WEBHOOK' });
      expect((await send({ method: 'DELETE', path: `${path}/9` })).body).toMatchObject({
        code: 'NOT_FOUND',
      });
    });

    test('success responses are those of the newest version', async () => {
      const path = '/warehouse/return/details?return_id=11';
      const [unstable, newest] = await Promise.all([
        send({ path: `/api/unstable${path}` }),
        send({ path: `/api/2026-10${path}` }),
      ]);
      expect(unstable.body).toEqual(newest.body);
      expect(unstable.headers['content-type']).toBe('application/json');
    });
  });
});

describe('the environment of a shop', () => {
  let under: TestGateway;
  let send: (sent: Sent) => Promise<Received>;
  let sandboxShop: bigint;
  let sandboxKey: string;

  beforeAll(async () => {
    under = await startTestGateway({ FAILED_CREDENTIALS_PER_MINUTE: 100_000 });
    send = restClient(under);
    sandboxShop = await under.newShop({ sandbox: true });
    sandboxKey = await under.newKey({ shopId: sandboxShop });
  });
  afterAll(() => under.stop());
  afterEach(() => under.resetServices());

  const CART = { path: '/cart', json: { cart: [1] } };
  const mark = ({ headers }: Received) => headers['x-service-environment'];

  /** A request that gets each status after authentication. */
  const REQUESTS: readonly (readonly [number, Sent])[] = [
    [200, CART],
    [204, { method: 'DELETE', path: '/webhooks/1' }],
    [400, { ...CART, json: undefined, raw: '{', headers: { 'content-type': 'application/json' } }],
    [404, { path: '/warehouse/return/details?return_id=99999999' }],
    [415, { ...CART, json: undefined, raw: 'x', headers: { 'content-type': 'text/plain' } }],
    [422, { ...CART, json: {} }],
  ];

  describe.each(['v1', '2026-07', '2026-10', 'unstable'])('responses of %s', (version) => {
    test.each(REQUESTS)(
      'with %i say sandbox to callers of a sandbox only',
      async (status, sent) => {
        under.services.webhooks.deleteSubscription = () => ({});
        const request = { ...sent, path: `/api/${version}${sent.path}` };
        const inSandbox = await send({ ...request, key: sandboxKey });
        expect(inSandbox.status).toBe(status);
        expect(mark(inSandbox)).toBe('sandbox');
        const live = await send(request);
        expect(live.status).toBe(status);
        expect(live.headers).not.toHaveProperty('x-service-environment');
        expect(live.text).toBe(inSandbox.text);
      },
    );
  });

  const cart = { ...CART, path: '/api/2026-10/cart' };

  describe('responses', () => {
    test.each([
      [503, Code.Unavailable],
      [500, Code.Internal],
    ])('with %i say sandbox, too', async (status, code) => {
      under.services.carts.createCart = () => {
        throw new ConnectError('failed', code);
      };
      const inSandbox = await send({ ...cart, key: sandboxKey });
      expect([inSandbox.status, mark(inSandbox)]).toEqual([status, 'sandbox']);
      expect(mark(await send(cart))).toBeUndefined();
    });

    test('to a key without the scope, or beyond its limit, say sandbox', async () => {
      const poor = await under.newKey({ shopId: sandboxShop, scopes: [] });
      const rejected = await send({ ...cart, key: poor });
      expect([rejected.status, mark(rejected)]).toEqual([401, 'sandbox']);
      const key = await under.newKey({ shopId: sandboxShop, restPerMinute: 1 });
      await send({ ...cart, key });
      const limited = await send({ ...cart, key });
      expect([limited.status, mark(limited)]).toEqual([429, 'sandbox']);
    });

    test('before a credential is accepted say nothing', async () => {
      const requests: readonly Sent[] = [
        { ...cart, key: null },
        { ...cart, key: `${sandboxKey}x` },
        { path: '/api/2026-10/nothing', key: sandboxKey },
      ];
      for (const request of requests) expect(mark(await send(request))).toBeUndefined();
    });
  });

  describe('a key', () => {
    const switchTo = (shopId: bigint, sandbox: boolean) =>
      under.database.pool.query('update shops set sandbox = $2 where id = $1', [shopId, sandbox]);

    test.each([true, false])(
      'made while sandbox was %j is unknown after the switch, and works after a switch back',
      async (sandbox) => {
        const shopId = await under.newShop({ sandbox });
        const [key, other] = [await under.newKey({ shopId }), await under.newKey({ shopId })];
        await switchTo(shopId, !sandbox);
        const rejected = await send({ ...cart, key });
        const unknown = await send({ ...cart, key: 'rms_x' });
        expect(rejected.status).toBe(401);
        expect(rejected.text).toBe(unknown.text);
        const [names, same] = [rejected, unknown].map(({ headers }) => Object.keys(headers).sort());
        expect(names).toEqual(same);
        expect(rejected.headers['www-authenticate']).toBe(unknown.headers['www-authenticate']);
        await switchTo(shopId, sandbox);
        expect((await send({ ...cart, key: other })).status).toBe(200);
      },
    );

    test('of a given text must be of the shop’s kind', async () => {
      const text = sandboxKey.replace(/.$/, (last) => (last === '0' ? '1' : '0'));
      await expect(under.newKey({ text })).rejects.toMatchObject({ field: 'text' });
      const inLive = under.newKey({ text: sandboxKey });
      await expect(inLive).rejects.toThrow('must be a key of a live shop');
    });
  });
});
