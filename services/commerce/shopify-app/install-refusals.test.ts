import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { ShopifyInstallProblem as Problem } from '../../../proto/gen/rms/commerce/v1/commerce_pb.ts';
import type { FakeShopifyApp } from '../../../test/kit/commerce/fake-shopify-app.ts';
import {
  type ComeBack,
  type InstallBench,
  startInstallBench,
  type TestStore,
} from '../../../test/kit/commerce/install-bench.ts';
import { notFound } from '../../../test/kit/services/returns-bench.ts';
import { refusal } from '../../../test/kit/services/running-service.ts';
import { NEEDED_SCOPES } from './app.ts';

let under: InstallBench;
let store: TestStore;
beforeAll(async () => {
  under = await startInstallBench();
});
afterAll(() => under?.stop());
beforeEach(async () => {
  store = await under.newStore();
  under.shopify.reset();
});

const notConnected = notFound('COMMERCE_CONNECTION');

describe('a callback is refused, and connects nothing,', () => {
  const refused = async (problem: Problem, o: ComeBack = {}): Promise<void> => {
    expect(await under.install(store, o)).toMatchObject({ problem, connectedShopId: 0n });
    expect(await refusal(under.connection(store))).toEqual(notConnected);
  };
  const isUsable = async (): Promise<void> =>
    expect(await under.install(store)).toMatchObject({ connectedShopId: store.shopId });

  test.each<[string, (query: URLSearchParams) => void]>([
    ['another state', (query) => query.set('state', 'x'.repeat(43))],
    ['another store', (query) => query.set('shop', 'other.myshopify.com')],
    ['another code', (query) => query.set('code', 'x')],
    ['one more parameter', (query) => query.append('x', '1')],
    ['a repeated parameter', (query) => query.append('code', query.get('code') ?? '')],
    ['no signature', (query) => query.delete('hmac')],
    ['a short signature', (query) => query.set('hmac', 'ab')],
  ])('when the signed query has %s', async (_, change) => {
    await refused(Problem.SIGNATURE, { change });
    expect(under.shopify.receiver.received).toHaveLength(0);
    await isUsable();
  });

  test('when it was signed with another secret', () =>
    refused(Problem.SIGNATURE, { secret: 'other' }));

  test.each(['', 'x'.repeat(43)])('when it comes from another browser (%j)', async (browser) => {
    await refused(Problem.STATE, { browser });
    expect(under.shopify.receiver.received).toHaveLength(0);
  });

  test("when the browser is that of another shop's attempt", async () => {
    const { browser } = await under.attempt(await under.newStore());
    await refused(Problem.STATE, { browser });
  });

  test('when it is of another store', async () => {
    await refused(Problem.DOMAIN, { store: 'other.myshopify.com' });
    expect(under.shopify.receiver.received).toHaveLength(0);
  });

  test('when its attempt has expired', async () => {
    const callback = await under.attempt(store);
    await under.bench.db.pool.query(
      'update shopify_installs set expires_at = now() where shop_id = $1',
      [store.shopId],
    );
    expect(await under.complete(callback)).toMatchObject({ problem: Problem.STATE });
  });

  test('when the merchant denied it', () =>
    refused(Problem.DENIED, { change: (query) => query.set('error', 'access_denied') }));

  test('when scopes are missing, which it lists', async () => {
    under.shopify.grant('write_orders,read_orders');
    const { missingScopes } = await under.install(store);
    expect(missingScopes).toEqual(NEEDED_SCOPES.filter((scope) => scope !== 'write_orders'));
    await refused(Problem.SCOPES);
  });

  test.each<[string, FakeShopifyApp['receiver']['answer']]>([
    ['rejects the code', (response) => void response.writeHead(400).end('{}')],
    ['fails', (response) => void response.writeHead(500).end('oops')],
    ['redirects', (response) => void response.writeHead(302, { location: '/' }).end()],
    ['closes the connection', (response) => void response.destroy()],
    ['answers garbage', (response) => void response.end('<html>')],
    ['answers without a token', (response) => void response.end('{"scope":"write_orders"}')],
    ['answers too much', (response) => void response.end('x'.repeat(2_000_000))],
    [
      'answers a token with a line break',
      (response) => void response.end('{"access_token":"a\\nb","scope":""}'),
    ],
  ])('when Shopify %s; the link still works', async (_, answer) => {
    under.shopify.receiver.answer = answer;
    const callback = await under.attempt(store);
    expect(await under.complete(callback)).toMatchObject({
      problem: Problem.EXCHANGE,
    });
    expect(await under.complete(callback)).toMatchObject({ problem: Problem.STATE });
    expect(await refusal(under.connection(store))).toEqual(notConnected);
    under.shopify.reset();
    await isUsable();
  });

  test('when Shopify does not answer in time', async () => {
    under.shopify.receiver.answer = () => {};
    await refused(Problem.EXCHANGE);
  });

  test('when a newer link was made while Shopify exchanged the code', async () => {
    const callback = await under.attempt(store);
    const { answer } = under.shopify.receiver;
    under.shopify.receiver.answer = async (...args) => {
      await under.newLink(store);
      return answer(...args);
    };
    expect(await under.complete(callback)).toMatchObject({ problem: Problem.STATE });
    expect(await refusal(under.connection(store))).toEqual(notConnected);
  });

  test('when another shop was connected to the store since', async () => {
    const callback = await under.attempt(store);
    const other = { ...store, shopId: await under.bench.shop() };
    expect(await under.install(other)).toMatchObject({ connectedShopId: other.shopId });
    expect(await under.complete(callback)).toMatchObject({
      problem: Problem.DOMAIN_TAKEN,
    });
  });

  test('when an effect of another provider has an unknown outcome since', async () => {
    const callback = await under.attempt(store);
    await under.loseAnswer(store);
    expect(await under.complete(callback)).toMatchObject({
      problem: Problem.UNKNOWN_OUTCOMES,
    });
    expect(await refusal(under.connection(store))).toEqual(notConnected);
  });
});
