import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { type InstallBench, startInstallBench } from '../../test/kit/commerce/install-bench.ts';
import { PUBLIC_URL, runAdmin } from '../../test/kit/gateway/run-admin.ts';
import { startTestGateway, type TestGateway } from '../../test/kit/gateway/test-gateway.ts';
import { actor, identity } from '../../test/kit/services/running-service.ts';
import { connectServices } from '../services.ts';

let under: TestGateway;
let installs: InstallBench;
let clients: ReturnType<typeof connectServices>;
beforeAll(async () => {
  under = await startTestGateway();
  installs = await startInstallBench();
  const { target } = installs.bench;
  const unused = { destinations: target, dispositions: target, fraud: target };
  const targets = { ...unused, carts: target, webhooks: target, returns: target };
  clients = connectServices(targets, { identity });
});
afterAll(async () => {
  clients?.close();
  await installs?.stop();
  await under?.stop();
});

async function newShop(): Promise<bigint> {
  const shopId = await under.newShop();
  await installs.bench.client.updateSettings({ shopId, actor, settings: { currency: 'GBP' } });
  return shopId;
}

const admin = (...words: string[]) =>
  runAdmin({ pool: under.database.pool, services: clients.services }, ['commerce', ...words]);
const LINK = new RegExp(`^${PUBLIC_URL}/commerce/shopify/install[?]link=([A-Za-z0-9_-]{43})$`);

describe('commerce shopify install-link', () => {
  test('prints a link that connects the shop; neither it nor the token is shown again', async () => {
    const shopId = await newShop();
    const words = ['shopify', 'install-link', '--shop', `${shopId}`];
    const [url = '', note] = await admin(...words, '--domain', 'mugs.myshopify.com');
    expect(url).toMatch(LINK);
    expect(note).toMatch(/^for mugs[.]myshopify[.]com, until .*Z, shown only now$/);
    const [, link = ''] = LINK.exec(url) ?? [];
    const { authorizeUrl, browser } = await installs.open(link);
    await installs.complete({ query: installs.shopify.comeBack(authorizeUrl), browser });
    const [line = ''] = await admin('show', '--shop', `${shopId}`);
    expect(line).toContain(`shop ${shopId}  shopify  mugs.myshopify.com  connected `);
    expect(line).toContain('  scopes write_orders,');
    const { rows } = await under.database.pool.query<{ entry: string }>(
      'select row_to_json(a)::text as entry from audit_log a where shop_id = $1',
      [shopId],
    );
    expect(rows.map(({ entry }) => JSON.parse(entry))).toMatchObject([
      { action: 'commerce.shopify.link_created', detail: { domain: 'mugs.myshopify.com' } },
    ]);
    for (const secret of [link, installs.shopify.tokens.issued.at(-1) ?? '']) {
      expect(`${line}${rows[0]?.entry}`).not.toContain(secret);
    }
  });

  test.each([
    [['--domain', 'mugs.example.com'], 'shop_domain must be <name>.myshopify.com'],
    [[], "required option '--domain <domain>' not specified"],
  ])('refuses %j', async (options, error) => {
    const words = ['shopify', 'install-link', '--shop', `${await newShop()}`, ...options];
    await expect(admin(...words)).rejects.toThrow(error);
  });

  test('refuses a shop that does not exist', async () => {
    const words = ['shopify', 'install-link', '--shop', '999', '--domain', 'mugs.myshopify.com'];
    await expect(admin(...words)).rejects.toThrow('there is no shop 999');
  });
});

test('commerce shopify data-requests lists the customers of this shop who asked for their data', async () => {
  const shopId = await newShop();
  const store = { shopId, shopDomain: 'plates.myshopify.com' };
  await installs.install(store);
  const list = (shop: bigint) => admin('shopify', 'data-requests', '--shop', `${shop}`);
  expect(await list(shopId)).toEqual([`shop ${shopId} has no data requests`]);
  const webhook = installs.shopify.webhook(store.shopDomain, 'customers/data_request', {
    shop_domain: store.shopDomain,
    customer: { id: 7, email: 'jo@example.com' },
    orders_requested: [11, 12],
    data_request: { id: 9 },
  });
  await installs.commerce.receiveShopifyWebhook(webhook);
  const [line, ...more] = await list(shopId);
  expect(line).toMatch(/Z {2}request 9 {2}customer 7 {2}orders 11,12$/);
  expect(more).toEqual([]);
  const other = await newShop();
  expect(await list(other)).toEqual([`shop ${other} has no data requests`]);
});
