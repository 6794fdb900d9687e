import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { DestinationsService } from '../../proto/gen/rms/destinations/v1/destinations_pb.ts';
import { ReturnState } from '../../proto/gen/rms/returns/v1/return_pb.ts';
import { startDestinations } from '../../services/destinations/service.ts';
import { forServices } from '../../services/platform/services.ts';
import { advanceClock } from '../../test/kit/clock.ts';
import { startFaultyEndpoint } from '../../test/kit/commerce/faulty-endpoint.ts';
import { type InstallBench, startInstallBench } from '../../test/kit/commerce/install-bench.ts';
import { PUBLIC_URL, runAdmin } from '../../test/kit/gateway/run-admin.ts';
import { startTestGateway, type TestGateway } from '../../test/kit/gateway/test-gateway.ts';
import { type ReturnsBench, startReturnsBench } from '../../test/kit/services/returns-bench.ts';
import {
  actor,
  identity,
  type RunningTestService,
  runService,
} from '../../test/kit/services/running-service.ts';
import { until } from '../../test/kit/until.ts';
import { type Receiver, startReceiver } from '../../test/kit/webhooks/receiver.ts';
import { connectServices } from '../services.ts';

let under: TestGateway;
beforeAll(async () => {
  under = await startTestGateway();
});
afterAll(() => under.stop());

/** Clients of a service that runs at this address. */
const connectTo = (target: string) =>
  connectServices(
    forServices(() => target),
    { identity },
  );

describe('commerce commands', () => {
  let clients: ReturnType<typeof connectTo>;
  let bench: ReturnsBench;
  let receiver: Receiver;
  let shopId: bigint;
  beforeAll(async () => {
    bench = await startReturnsBench();
    receiver = await startReceiver();
    clients = connectTo(bench.target);
  });
  afterAll(async () => {
    clients?.close();
    await receiver?.stop();
    await bench?.stop();
  });
  beforeEach(async () => {
    shopId = await under.newShop();
    await bench.client.updateSettings({ shopId, actor, settings: { currency: 'GBP' } });
  });

  const admin = (...words: string[]) =>
    runAdmin({ pool: under.database.pool, services: clients.services }, words);
  /** The lines of a command that fails, and then its error. */
  async function failing(...words: string[]): Promise<string[]> {
    const lines: string[] = [];
    const context = { pool: under.database.pool, services: clients.services };
    const error = await runAdmin(context, words, lines).catch((caught: unknown) => caught);
    if (!(error instanceof Error)) throw new Error('the command did not fail');
    return [...lines, error.message];
  }
  const commerce = (command: string, ...words: string[]) =>
    admin('commerce', command, '--shop', `${shopId}`, ...words);
  const SECRET = /^secret (whsec_\S+) {2}\(shown only now\)$/;

  async function audited(): Promise<string[]> {
    const { rows } = await under.database.pool.query<{ action: string; detail: unknown }>(
      'select action, detail from audit_log where shop_id = $1 order by id',
      [shopId],
    );
    return rows.map(({ action, detail }) => `${action} ${JSON.stringify(detail)}`);
  }

  describe('commerce', () => {
    test('connects, shows, rotates and disconnects; only the log of changes has no secret', async () => {
      expect(await commerce('show')).toEqual([`shop ${shopId} is not connected`]);
      const [line, secret = ''] = await commerce('connect', '--url', `${receiver.url}/`);
      expect(line).toContain(`shop ${shopId}  http  ${receiver.url}/  connected `);
      expect(secret).toMatch(SECRET);
      expect(await commerce('connect', '--url', `${receiver.url}/`)).toEqual([
        line,
        'the secret has not changed',
      ]);
      expect(await commerce('show')).toEqual([line]);
      const [rotated = ''] = await commerce('rotate', '--overlap', '0');
      expect(rotated).toMatch(SECRET);
      expect(rotated).not.toBe(secret);
      expect(await commerce('disconnect')).toEqual([`shop ${shopId} is disconnected`]);
      expect(await commerce('disconnect')).toEqual([`shop ${shopId} is not connected`]);
      const entries = await audited();
      expect(entries.map((entry) => entry.split(' ')[0])).toEqual([
        'commerce.connected',
        'commerce.connected',
        'commerce.secret.rotated',
        'commerce.disconnected',
      ]);
      expect(entries.join()).not.toContain('whsec_');
    });

    test('says why an address is not allowed', async () => {
      const [message] = await failing(
        ...['commerce', 'connect', '--shop', `${shopId}`, '--url', 'https://10.0.0.1/'],
      );
      expect(message).toContain('url must not be a private');
    });

    test('shows an order of the provider', async () => {
      expect(await commerce('order', '--name', '#1001')).toEqual(['there is no order #1001']);
      const line = { line_item_id: 9, title: 'Mug', quantity: 2, returnable: 1 };
      const unit_price = { shop: '10.00', presentment: '1550' };
      const names = { id: 445, name: '#1001', currency: 'GBP', presentment_currency: 'JPY' };
      const sample = { ...names, lines: [{ ...line, unit_price }] };
      const folder = mkdtempSync(join(tmpdir(), 'rms-orders-'));
      const file = join(folder, 'orders.json');
      writeFileSync(file, JSON.stringify([sample]));
      expect(await commerce('sample-orders', file)).toEqual(['1 order recorded']);
      expect(await commerce('order', '--name', '#1001')).toHaveLength(2);
      rmSync(folder, { recursive: true });
      await commerce('connect', '--url', `${receiver.url}/`);
      let order: object | null = null;
      receiver.answer = (response) => void response.end(JSON.stringify({ order }));
      expect(await commerce('order', '--name', '#1001')).toEqual(['there is no order #1001']);
      order = sample;
      expect(await commerce('order', '--name', '#1001')).toEqual([
        '#1001  445  GBP, paid in JPY',
        '9  -  Mug  1 of 2 returnable  paid 20.00 GBP (3100 JPY), left 10.00 GBP (1550 JPY)',
      ]);
    });

    test('lists the effects of a return', async () => {
      const { id: returnId } = await bench.submit(shopId);
      expect(await commerce('effects', '--return', `${returnId}`)).toEqual([
        `return ${returnId} has no effects`,
      ]);
      await bench.client.processReturn({ shopId, actor, returnId });
      const isClosed = async () =>
        (await bench.read({ shopId, id: returnId })).state === ReturnState.CLOSED;
      await until(isClosed);
      const [line] = await commerce('effects', '--return', `${returnId}`);
      expect(line).toMatch(
        /^refund {2}made {2}rms:return:\d+:[0-9a-f]{32}:refund {2}asked 20\S+ {2}answered 20\S+ {2}\S+ GBP {2}\d+$/,
      );
    });

    test('settles an effect with an unknown outcome', async () => {
      const { id: returnId } = await bench.submit(shopId);
      await commerce('connect', '--url', `${receiver.url}/`);
      receiver.answer = (response) => {
        const effect = { id: 'R-7', amount: '0.01', currency: 'GBP' };
        response.end(JSON.stringify({ effect }));
      };
      await bench.client.processReturn({ shopId, actor, returnId });
      const state = async () => (await commerce('effects', '--return', `${returnId}`))[0] ?? '';
      await until(async () => (await state()).startsWith('refund  unknown'));
      const [, hint] = await commerce('effects', '--return', `${returnId}`);
      expect(hint).toContain(
        `commerce settle --shop ${shopId} --return ${returnId} --effect refund`,
      );
      await until(async () => !(await bench.read({ shopId, id: returnId })).processing);
      const settle = (...words: string[]) =>
        commerce('settle', '--return', `${returnId}`, '--effect', 'refund', ...words);
      await expect(settle()).rejects.toThrow('say either --made <id> or --not-made');
      await expect(settle('--not-made')).rejects.toThrow('may still arrive');
      advanceClock(121_000);
      const made = ['--made', 'R-7', '--amount', '0.01', '--gateway', 'card'];
      expect(await settle(...made)).toEqual(['refund  made  0.01 GBP  R-7']);
      await expect(settle('--not-made')).rejects.toThrow('is known');
      expect((await audited()).at(-1)).toBe(
        'commerce.effect.settled {"state":"made","amount":"0.01 GBP","effect":"refund","provider_id":"R-7"}',
      );
    });

    test('checks an endpoint, and fails when a check fails', async () => {
      const [, secret = ''] = await commerce('connect', '--url', `${receiver.url}/`);
      const value = SECRET.exec(secret)?.[1] ?? '';
      const sound = await startFaultyEndpoint(value, undefined);
      await commerce('connect', '--url', sound.url);
      const lines = await commerce('check');
      expect(lines.at(-1)).toBe('all 14 checks passed');
      sound.stop();
      const faulty = await startFaultyEndpoint(value, 'forgets keys');
      await commerce('connect', '--url', faulty.url);
      const found = await failing('commerce', 'check', '--shop', `${shopId}`);
      expect(found).toContainEqual(expect.stringMatching(/^FAILED {2}makes nothing again/));
      expect(found.at(-1)).toMatch(/^\d of 14 checks failed$/);
      faulty.stop();
    });
  });

  describe('reconcile', () => {
    test('compares days, and fails when effects differ', async () => {
      await commerce('connect', '--url', `${receiver.url}/`);
      receiver.answer = (response) => {
        const key = 'rms:return:1:refund';
        const effect = { id: 'R-1', key, kind: 'refund', amount: '5.00', currency: 'GBP' };
        const effects = [{ ...effect, created_at: new Date().toISOString() }];
        response.end(JSON.stringify({ effects, next_cursor: null }));
      };
      const today = new Date().toISOString().slice(0, 10);
      const lines = await failing('reconcile', '--shop', `${shopId}`, '--from', today);
      expect(lines).toEqual([
        `${today}  1 compared, 1 differ`,
        '  unexpected  refund  rms:return:1:refund  ours -  theirs 5.00 GBP  R-1',
        '1 effects differ',
      ]);
      receiver.answer = (response) => {
        response.end(JSON.stringify({ effects: [], next_cursor: null }));
      };
      expect(await admin('reconcile', '--shop', `${shopId}`, '--from', today)).toEqual([
        `${today}  0 compared, 0 differ`,
      ]);
    });
  });
});

describe('destination create', () => {
  let clients: ReturnType<typeof connectTo>;
  let service: RunningTestService<typeof DestinationsService>;

  beforeAll(async () => {
    service = await runService({
      schema: 'destinations',
      service: DestinationsService,
      start: startDestinations,
    });
    clients = connectTo(service.target);
  });
  afterAll(async () => {
    clients.close();
    await service.stop();
  });

  /** Creates a shop, and returns its `destination` commands. */
  async function shopCommands() {
    const shop = `${await under.newShop()}`;
    const context = { pool: under.database.pool, services: clients.services };
    const run = (command: 'create' | 'list', ...words: string[]) =>
      runAdmin(context, ['destination', command, '--shop', shop, ...words]);
    return {
      shop,
      create: (...words: string[]) => run('create', ...words),
      list: () => run('list'),
    };
  }

  const DEPOT = ['--name', 'Depot', '--address1', '1 Quay', '--zip', 'N1 1AA', '--country-code'];

  test('creates a destination once for each name, and audits it', async () => {
    const { shop, create, list } = await shopCommands();
    expect(await list()).toEqual([]);
    const [line = ''] = await create(...DEPOT, 'gb');
    const [, id] = /^destination (\d+) "Depot" \(warehouse, GB\)$/.exec(line) ?? [];
    expect(await create(...DEPOT, 'gb')).toEqual([line]);
    const spelled = ['--name', ' Depot\u00a0', ...DEPOT.slice(2), 'gb'];
    expect(await create(...spelled)).toEqual([line]);
    const [other] = await create('--name', 'Gifts', '--type', 'donate', '--disabled');
    expect(other).toMatch(/^destination \d+ "Gifts" \(donate, disabled\)$/);
    expect(await list()).toEqual([line, other]);
    const { rows } = await under.database.pool.query(
      'select action, subject, detail from audit_log where shop_id = $1 order by id',
      [shop],
    );
    const detail = { name: 'Depot' };
    expect(rows[0]).toEqual({ action: 'destination.created', subject: id, detail });
  });

  test('prints why it created no destination', async () => {
    const { shop, create, list } = await shopCommands();
    await create(...DEPOT, 'GB');
    for (const [words, reason] of [
      [[...DEPOT, 'FR'], `this command created "Depot" in shop ${shop} before, with other values`],
      [['--name', 'GBR', '--country-code', 'GBR'], 'address.country_code must be two letters'],
      [['--name', 'x'.repeat(192)], 'name must be at most 191 characters'],
      [['--name', ' '], 'name is required'],
      [['--name', 'Shop', '--type', 'shop'], 'must be one of warehouse, donate'],
      [[], '--name'],
      [['--name', 'Depot', '--shop', '999999'], 'no shop 999999'],
    ] as const) {
      await expect(create(...words)).rejects.toThrow(reason);
    }
    expect(await list()).toHaveLength(1);
  });
});

describe('shopify commands', () => {
  let clients: ReturnType<typeof connectTo>;
  let installs: InstallBench;
  beforeAll(async () => {
    installs = await startInstallBench();
    clients = connectTo(installs.bench.target);
  });
  afterAll(async () => {
    clients?.close();
    await installs?.stop();
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
});
