import { timestampDate, timestampFromDate } from '@bufbuild/protobuf/wkt';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import type { Return } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { newId } from '../../../test/kit/builders.ts';
import type { SignedWebhook } from '../../../test/kit/commerce/fake-shopify-app.ts';
import {
  type InstallBench,
  startInstallBench,
  type TestStore,
} from '../../../test/kit/commerce/install-bench.ts';
import { changeDeps } from '../../../test/kit/services/return-stores.ts';
import { actor } from '../../../test/kit/services/running-service.ts';
import { until } from '../../../test/kit/until.ts';
import { createLogger } from '../../platform/telemetry/log.ts';
import { redactNext } from '../../returns/retention/redact.ts';

let under: InstallBench;
let store: TestStore;
beforeAll(async () => {
  under = await startInstallBench();
});
afterAll(() => under?.stop());
beforeEach(async () => {
  store = await under.newStore();
  under.shopify.reset();
  await under.install(store);
});

const receive = async (
  webhook: SignedWebhook & { readonly triggeredAt?: Date },
): Promise<boolean> => {
  const { triggeredAt, ...rest } = webhook;
  const at = triggeredAt && { triggeredAt: timestampFromDate(triggeredAt) };
  return (await under.commerce.receiveShopifyWebhook({ ...rest, ...at })).accepted;
};

const named = () => ({ shop_id: 1, shop_domain: store.shopDomain });
const uninstalled = (domain = store.shopDomain): SignedWebhook =>
  under.shopify.webhook(store.shopDomain, 'app/uninstalled', { id: 1, myshopify_domain: domain });

async function isProcessed(): Promise<boolean> {
  const { id: returnId } = await under.bench.submit(store.shopId);
  const call = { shopId: store.shopId, actor, returnId };
  return (await under.bench.client.processReturn(call)).result.case !== 'refused';
}

async function hasToken(): Promise<boolean> {
  const { rowCount } = await under.bench.db.pool.query(
    'select from shopify_tokens where shop_id = $1',
    [store.shopId],
  );
  return rowCount === 1;
}

/** Whether the connection has the secret of gift card codes. */
async function keepsCodeSecret(): Promise<boolean> {
  const { rowCount } = await under.bench.db.pool.query(
    'select from commerce_connections where shop_id = $1 and code_sealed is not null',
    [store.shopId],
  );
  return rowCount === 1;
}

const EMAIL = 'jo@example.com';
const submit = (shopId: bigint, providerOrderId = newId()): Promise<Return> =>
  under.bench.submit(shopId, {
    order: { providerOrderId, name: '#1001' },
    customer: { email: EMAIL, firstName: 'Jo' },
  });

const emailOf = async (of: Return) => (await under.bench.read(of)).customer?.email;

describe('a webhook of Shopify', () => {
  test.each<[string, (sent: SignedWebhook) => Partial<SignedWebhook>]>([
    ['another secret', () => under.shopify.webhook(store.shopDomain, 'x', {}, { secret: 'other' })],
    ['another body', () => ({ body: Buffer.from('{}') })],
    ['one byte more', ({ body }) => ({ body: Buffer.concat([body, Buffer.from(' ')]) })],
    ['no signature', () => ({ hmac: '' })],
    ['a signature in hex', ({ hmac }) => ({ hmac: Buffer.from(hmac, 'base64').toString('hex') })],
  ])('is not accepted with %s', async (_, change) => {
    const sent = uninstalled();
    expect(await receive({ ...sent, ...change(sent) })).toBe(false);
    expect(await hasToken()).toBe(true);
  });

  test.each<[string, () => SignedWebhook]>([
    ['of an unknown topic', () => ({ ...uninstalled(), topic: 'carts/update' })],
    ['with the topic of an inherited name', () => ({ ...uninstalled(), topic: 'constructor' })],
    ['of an unknown store', () => ({ ...uninstalled(), shopDomain: 'unknown.myshopify.com' })],
    ['whose body names another store', () => uninstalled('other.myshopify.com')],
    ['with a long id', () => ({ ...uninstalled(), webhookId: 'x'.repeat(101) })],
    ['without fields', () => under.shopify.webhook(store.shopDomain, 'app/uninstalled', [])],
    [
      'of a customer with a broken id',
      () =>
        under.shopify.webhook(store.shopDomain, 'customers/data_request', {
          ...named(),
          customer: { id: -1 },
          data_request: { id: 2 },
        }),
    ],
  ])('%s is accepted, and changes nothing', async (_, sent) => {
    expect(await receive(sent())).toBe(true);
    expect(await hasToken()).toBe(true);
  });
});

describe('app/uninstalled', () => {
  test('removes the token; returns are not processed until the app is installed again', async () => {
    expect(await receive(uninstalled())).toBe(true);
    expect(await hasToken()).toBe(false);
    expect((await under.connection(store))?.uninstalledAt).toBeDefined();
    expect(await isProcessed()).toBe(false);
    await under.install(store);
    const again = await under.connection(store);
    expect([again?.shopDomain, again?.uninstalledAt]).toEqual([store.shopDomain, undefined]);
  });

  test('that arrives late, or twice, keeps the token of a later install', async () => {
    const late = { ...uninstalled(), triggeredAt: new Date(Date.now() - 3_600_000) };
    expect(await receive(late)).toBe(true);
    expect(await hasToken()).toBe(true);
    const sent = uninstalled();
    await receive(sent);
    await under.install(store);
    expect(await receive(sent)).toBe(true);
    expect(await hasToken()).toBe(true);
  });

  test('keeps the secret of gift card codes until another provider is connected', async () => {
    await receive(uninstalled());
    expect(await keepsCodeSecret()).toBe(true);
    const { shopId } = store;
    await under.commerce.connect({ shopId, actor, url: 'https://platform.example.com/' });
    expect(await keepsCodeSecret()).toBe(false);
  });

  test('keeps effects with an unknown outcome bound to the store', async () => {
    await under.loseAnswer(store);
    await receive(uninstalled());
    const { shopId } = store;
    const other = under.newLink({ shopId, shopDomain: 'other.myshopify.com' });
    await expect(other).rejects.toThrow('unknown outcome');
    expect(await under.install(store)).toMatchObject({ connectedShopId: shopId });
  });
});

describe('customers/redact', () => {
  const redact = (email: string | null, orders: readonly number[] = []) =>
    under.shopify.webhook(store.shopDomain, 'customers/redact', {
      ...named(),
      customer: { id: 1, email, phone: null },
      orders_to_redact: orders,
    });

  test('removes the data of the customer from all returns of this shop, and of no other', async () => {
    const [first, second] = [await submit(store.shopId), await submit(store.shopId)];
    const foreign = await submit(await under.bench.shop());
    expect(await receive(redact(EMAIL.toUpperCase()))).toBe(true);
    await until(async () => !(await emailOf(first)) && !(await emailOf(second)));
    expect(await emailOf(foreign)).toBe(EMAIL);
    expect(await under.bench.triggers(first)).toContain('customer.redacted');
  });

  test('finds returns by their order, also without an e-mail address', async () => {
    const order = newId();
    const of = await submit(store.shopId, order);
    const other = await submit(store.shopId);
    expect(await receive(redact(null, [Number(order)]))).toBe(true);
    await until(async () => !(await emailOf(of)));
    expect(await emailOf(other)).toBe(EMAIL);
  });

  test('leaves no row with the e-mail address', async () => {
    await receive(redact('nobody@example.com'));
    await until(async () => (await openRedactions()) === 0);
  });
});

async function openRedactions(): Promise<number> {
  const { rowCount } = await under.bench.db.pool.query(
    'select from shopify_redactions where shop_id = $1',
    [store.shopId],
  );
  return rowCount ?? 0;
}

describe('shop/redact', () => {
  const redact = () => under.shopify.webhook(store.shopDomain, 'shop/redact', named());

  test('removes the data of all customers of the shop', async () => {
    const all = [await submit(store.shopId), await submit(store.shopId)];
    const foreign = await submit(await under.bench.shop());
    await receive(uninstalled());
    expect(await receive(redact())).toBe(true);
    await until(async () => (await openRedactions()) === 0);
    expect(await Promise.all(all.map(emailOf))).toEqual([undefined, undefined]);
    expect(await emailOf(foreign)).toBe(EMAIL);
  });

  test('deletes the secret of gift card codes', async () => {
    await receive(uninstalled());
    expect(await receive(redact())).toBe(true);
    expect(await keepsCodeSecret()).toBe(false);
    expect(await under.install(store)).toMatchObject({ connectedShopId: store.shopId });
  });

  test('changes nothing when the app is installed again', async () => {
    const of = await submit(store.shopId);
    expect(await receive(redact())).toBe(true);
    expect([await openRedactions(), Boolean(await emailOf(of))]).toEqual([0, true]);
  });

  test('is continued by another process ten minutes after a crash', async () => {
    const of = await submit(store.shopId);
    const { pool } = under.bench.db;
    const _logger = createLogger({ service: 'test', level: 'silent' });
    const next = () => redactNext(changeDeps(pool), new AbortController().signal);
    const insert = `insert into shopify_redactions (shop_id, begun_at)
                    values ($1, now() - make_interval(mins => $2)) returning id`;
    await pool.query(insert, [store.shopId, 9]);
    expect(await next()).toBe(false);
    await pool.query(insert, [store.shopId, 11]);
    expect(await next()).toBe(true);
    expect(await emailOf(of)).toBeUndefined();
    await pool.query('delete from shopify_redactions');
  });
});

describe('customers/data_request', () => {
  test('is listed for its shop once, newest first, with ids only', async () => {
    const request = (id: number) =>
      under.shopify.webhook(store.shopDomain, 'customers/data_request', {
        ...named(),
        customer: { id: 7, email: 'a@example.com', phone: '+441' },
        orders_requested: [11, 12],
        data_request: { id },
      });
    const first = request(1);
    await receive(first);
    await receive(first);
    await receive(request(2));
    const list = async (shopId: bigint) =>
      (await under.commerce.listShopifyDataRequests({ shopId, actor })).requests;
    const listed = await list(store.shopId);
    expect(listed).toMatchObject([
      { requestId: 2n, customerId: 7n, orderIds: [11n, 12n] },
      { requestId: 1n, customerId: 7n, orderIds: [11n, 12n] },
    ]);
    const [{ receivedAt } = {}] = listed;
    expect(receivedAt && timestampDate(receivedAt).getTime()).toBeGreaterThan(0);
    expect(await list(await under.bench.shop())).toEqual([]);
  });
});
