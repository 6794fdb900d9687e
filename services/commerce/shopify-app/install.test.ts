import { Code } from '@connectrpc/connect';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import {
  Check,
  CommerceAdapter,
  CommerceService,
  ShopifyInstallProblem as Problem,
} from '../../../proto/gen/rms/commerce/v1/commerce_pb.ts';
import { Actor_Kind } from '../../../proto/gen/rms/common/v1/actor_pb.ts';
import { SHOPIFY_CLIENT_ID } from '../../../test/kit/commerce/fake-shopify-app.ts';
import {
  type InstallBench,
  REDIRECT,
  startInstallBench,
  type TestStore,
} from '../../../test/kit/commerce/install-bench.ts';
import {
  invalid,
  startReturnsBench,
  stateForbids,
} from '../../../test/kit/services/returns-bench.ts';
import { actor, identity, refusal } from '../../../test/kit/services/running-service.ts';
import { until } from '../../../test/kit/until.ts';
import { createServiceClient } from '../../platform/rpc/client.ts';
import { NEEDED_SCOPES } from './app.ts';

const ENDPOINT = 'https://platform.example.com/';

let under: InstallBench;
let store: TestStore;
beforeAll(async () => {
  under = await startInstallBench({ SHOPIFY_EXTRA_SCOPES: ['read_all_orders'] });
});
afterAll(() => under?.stop());
beforeEach(async () => {
  store = await under.newStore();
  under.shopify.reset();
});

describe('an install', () => {
  test('connects the shop to its store, and stores the token encrypted', async () => {
    const { authorizeUrl, browser } = await under.open(await under.newLink(store));
    const { origin, pathname, searchParams } = new URL(authorizeUrl);
    expect(`${origin}${pathname}`).toBe(`https://${store.shopDomain}/admin/oauth/authorize`);
    expect(Object.fromEntries(searchParams)).toEqual({
      client_id: SHOPIFY_CLIENT_ID,
      scope: [...NEEDED_SCOPES, 'read_all_orders'].join(','),
      redirect_uri: REDIRECT,
      state: expect.stringMatching(/^[A-Za-z0-9_-]{43}$/),
    });
    const query = under.shopify.comeBack(authorizeUrl);
    expect(await under.complete({ query, browser })).toMatchObject({
      problem: Problem.UNSPECIFIED,
      connectedShopId: store.shopId,
      shopDomain: store.shopDomain,
    });
    expect(await under.connection(store)).toMatchObject({
      adapter: CommerceAdapter.SHOPIFY,
      url: '',
      shopDomain: store.shopDomain,
      scopes: NEEDED_SCOPES,
    });
    const { rows } = await under.bench.db.pool.query<{ stored: string }>(
      `select row_to_json(t)::text || row_to_json(i)::text as stored
         from shopify_tokens t join shopify_installs i using (shop_id) where shop_id = $1`,
      [store.shopId],
    );
    const hex = (text: string) => Buffer.from(text).toString('hex');
    const { issued, refreshOf } = under.shopify.tokens;
    const refresh = refreshOf(store.shopDomain);
    expect(refresh).toMatch(/^shprt_/);
    const secrets = [issued.at(-1), refresh, searchParams.get('state'), browser].map(String);
    for (const secret of secrets) {
      expect(rows[0]?.stored).not.toContain(secret);
      expect(rows[0]?.stored).not.toContain(hex(secret));
    }
  });

  test('that a user began goes on only where this user is signed in', async () => {
    const by = { kind: Actor_Kind.USER, id: '7', name: 'Ada' };
    const { link } = await under.commerce.createShopifyInstallLink({ ...store, actor: by });
    const open = (userId: string) =>
      under.commerce.beginShopifyInstall({ query: `link=${link}`, redirectUrl: REDIRECT, userId });
    for (const userId of ['', '8']) {
      expect(await open(userId)).toMatchObject({ problem: Problem.OTHER_USER, authorizeUrl: '' });
    }
    expect(await open('7')).toMatchObject({ problem: Problem.UNSPECIFIED });
  });

  test('answers the same to a browser that repeats it, and asks Shopify once', async () => {
    const callback = await under.attempt(store);
    const answers = [await under.complete(callback)];
    answers.push(await under.complete(callback));
    expect(answers[1]).toEqual(answers[0]);
    expect(answers[1]?.connectedShopId).toBe(store.shopId);
    expect(under.shopify.receiver.received).toHaveLength(1);
  });

  test('of concurrent callbacks one asks Shopify', async () => {
    const callback = await under.attempt(store);
    await Promise.all([1, 2, 3].map(() => under.complete(callback)));
    expect(under.shopify.receiver.received).toHaveLength(1);
    expect((await under.connection(store))?.shopDomain).toBe(store.shopDomain);
  });

  test('again of the same store replaces the token, also while an outcome is unknown', async () => {
    await under.install(store);
    const before = await under.connection(store);
    await under.loseAnswer(store);
    expect(await under.install(store)).toMatchObject({ connectedShopId: store.shopId });
    expect((await under.connection(store))?.connectedAt).toEqual(before?.connectedAt);
    expect(under.shopify.tokens.issued.at(-1)).not.toBe(under.shopify.tokens.issued.at(-2));
  });

  test('accepts scopes to write instead of those to read', async () => {
    under.shopify.grant(NEEDED_SCOPES.map((scope) => scope.replace('read_', 'write_')).join(','));
    expect(await under.install(store)).toMatchObject({ connectedShopId: store.shopId });
  });
});

describe('an install link', () => {
  test('may be opened again until an install is complete; then earlier attempts end', async () => {
    const link = await under.newLink(store);
    const first = await under.open(link);
    const second = await under.open(link);
    const done = (one: typeof first) =>
      under.commerce.completeShopifyInstall({
        query: under.shopify.comeBack(one.authorizeUrl),
        browser: one.browser,
      });
    expect(await done(first)).toMatchObject({ problem: Problem.STATE });
    expect(await done(second)).toMatchObject({ connectedShopId: store.shopId });
    expect(await under.open(link)).toMatchObject({ problem: Problem.LINK, authorizeUrl: '' });
  });

  test('ends with a newer link of the shop, and not with one of another shop', async () => {
    const old = await under.newLink(store);
    const link = await under.newLink(store);
    await under.newLink(await under.newStore());
    expect(await under.open(old)).toMatchObject({ problem: Problem.LINK });
    expect(await under.open(link)).toMatchObject({ problem: Problem.UNSPECIFIED });
  });

  test.each(['', 'link=', 'link=a&link=b', `link=${'x'.repeat(5_000)}`, 'link=unknown'])(
    'is refused: %s',
    async (query) => {
      expect(
        await under.commerce.beginShopifyInstall({ query, redirectUrl: REDIRECT }),
      ).toMatchObject({ problem: Problem.LINK, authorizeUrl: '', browser: '' });
    },
  );

  test('expires', async () => {
    const link = await under.newLink(store);
    await under.bench.db.pool.query(
      'update shopify_installs set expires_at = now() where shop_id = $1',
      [store.shopId],
    );
    expect(await under.open(link)).toMatchObject({ problem: Problem.LINK });
  });

  test.each([
    'store.example.com',
    'store.myshopify.com.example.com',
    'Store.myshopify.com',
    '-a.myshopify.com',
    'a/b.myshopify.com',
    'a@evil.myshopify.com:80',
    '.myshopify.com',
    'store.myshopify.com\n',
    '',
  ])('has no domain such as %j', async (shopDomain) => {
    expect(await refusal(under.newLink({ ...store, shopDomain }))).toEqual(invalid('shop_domain'));
  });

  test("is refused for another shop's store, and while an outcome is unknown", async () => {
    await under.install(store);
    const { shopId } = await under.newStore();
    expect(await refusal(under.newLink({ ...store, shopId }))).toEqual(stateForbids);
    await under.loseAnswer(store);
    expect(await refusal(under.newLink({ ...store, shopDomain: 'new.myshopify.com' }))).toEqual(
      stateForbids,
    );
  });

  test('needs an app', async () => {
    const without = await startReturnsBench();
    const { client, close } = createServiceClient(CommerceService, {
      target: without.target,
      identity,
    });
    const call = { shopId: await without.shop(), actor, shopDomain: store.shopDomain };
    expect(await refusal(client.createShopifyInstallLink(call))).toEqual(stateForbids);
    const problem = Problem.NOT_CONFIGURED;
    const query = 'link=x';
    expect(await client.beginShopifyInstall({ query, redirectUrl: REDIRECT })).toMatchObject({
      problem,
    });
    expect(await client.completeShopifyInstall({ query })).toMatchObject({ problem });
    close();
    await without.stop();
  });
});

describe('a shop that is connected to Shopify', () => {
  test('has no secret and no check', async () => {
    await under.install(store);
    expect(await refusal(under.commerce.rotateSecret({ shopId: store.shopId, actor }))).toEqual(
      stateForbids,
    );
    const check = { shopId: store.shopId, actor, check: Check.MONEY, providerOrderId: 1n };
    expect(await refusal(under.commerce.runCheck(check))).toEqual(stateForbids);
  });

  test('is disconnected with its token; then another shop may have the store', async () => {
    await under.install(store);
    expect(await under.commerce.disconnect({ shopId: store.shopId, actor })).toMatchObject({
      disconnected: true,
    });
    const { rowCount } = await under.bench.db.pool.query(
      'select from shopify_tokens where shop_id = $1',
      [store.shopId],
    );
    expect(rowCount).toBe(0);
    const other = { ...store, shopId: await under.bench.shop() };
    expect(await under.install(other)).toMatchObject({ connectedShopId: other.shopId });
  });

  test('may move to an endpoint and back, but not while an outcome is unknown', async () => {
    await under.install(store);
    const { secret } = await under.commerce.connect({ shopId: store.shopId, actor, url: ENDPOINT });
    expect(secret?.value).toMatch(/^whsec_/);
    expect(await under.connection(store)).toMatchObject({
      adapter: CommerceAdapter.HTTP,
      url: ENDPOINT,
      shopDomain: '',
      scopes: [],
    });
    expect(await under.install(store)).toMatchObject({ connectedShopId: store.shopId });
    await under.loseAnswer(store);
    const back = under.commerce.connect({ shopId: store.shopId, actor, url: ENDPOINT });
    expect((await refusal(back)).code).toBe(Code.FailedPrecondition);
    expect((await under.connection(store))?.adapter).toBe(CommerceAdapter.SHOPIFY);
    expect(
      await under.commerce.connect({ shopId: store.shopId, actor, url: ENDPOINT, force: true }),
    ).toMatchObject({
      connection: { adapter: CommerceAdapter.HTTP },
    });
  });
});

describe('a return of a shop that is connected to Shopify', () => {
  test('is processed with the newest token; a revoked one is named as the problem, and nothing is lost', async () => {
    const { shopId } = store;
    under.shopify.tokens.areExpiring = false;
    await under.install(store);
    under.shopify.receiver.answer = (response) => void response.writeHead(401).end('{}');
    under.shopify.receiver.received.length = 0;
    const { id: returnId } = await under.bench.submit(shopId);
    await under.bench.client.processReturn({ shopId, actor, returnId });
    const effects = async () =>
      (await under.commerce.listEffects({ shopId, actor, returnId })).effects;
    await until(async () => Boolean((await effects())[0]?.problem));
    expect((await effects())[0]?.problem).toContain('Shopify: it answered 401');
    const tokens = () =>
      under.shopify.receiver.received.map(({ headers }) => headers['x-shopify-access-token']);
    expect(new Set(tokens())).toEqual(new Set([under.shopify.tokens.issued.at(-1)]));
    under.shopify.reset();
    await under.install(store);
    under.shopify.receiver.answer = (response) => void response.writeHead(401).end('{}');
    await until(async () => tokens().includes(under.shopify.tokens.issued.at(-1)));
  });
});
