import { Code, ConnectError } from '@connectrpc/connect';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { type Received, restClient, type Sent } from '../../test/kit/gateway/rest-client.ts';
import { startTestGateway, type TestGateway } from '../../test/kit/gateway/test-gateway.ts';

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
  test.each(REQUESTS)('with %i say sandbox to callers of a sandbox only', async (status, sent) => {
    under.services.webhooks.deleteSubscription = () => ({});
    const request = { ...sent, path: `/api/${version}${sent.path}` };
    const inSandbox = await send({ ...request, key: sandboxKey });
    expect(inSandbox.status).toBe(status);
    expect(mark(inSandbox)).toBe('sandbox');
    const live = await send(request);
    expect(live.status).toBe(status);
    expect(live.headers).not.toHaveProperty('x-service-environment');
    expect(live.text).toBe(inSandbox.text);
  });
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
