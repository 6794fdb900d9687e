import { request } from 'node:http';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { NEEDED_SCOPES } from '../../services/commerce/shopify-app/app.ts';
import type { SignedWebhook } from '../../test/kit/commerce/fake-shopify-app.ts';
import {
  type ComeBack,
  type InstallBench,
  startInstallBench,
  type TestStore,
} from '../../test/kit/commerce/install-bench.ts';
import { startTestGateway, type TestGateway } from '../../test/kit/gateway/test-gateway.ts';
import { Browser, type Shown } from '../../test/kit/oauth/browser.ts';
import { actor } from '../../test/kit/services/running-service.ts';
import { until } from '../../test/kit/until.ts';

let installs: InstallBench;
beforeAll(async () => {
  installs = await startInstallBench();
});
afterAll(() => installs.stop());

describe('shopify install', () => {
  const PUBLIC = 'https://returns.example.com';
  const CALLBACK = '/commerce/shopify/callback';

  let under: TestGateway;
  let browser: Browser;
  let store: TestStore;
  beforeAll(async () => {
    under = await startTestGateway({
      RETURNS_TARGET: installs.bench.target,
      PUBLIC_BASE_URL: PUBLIC,
      SHOPIFY_INSTALL_PER_HOUR: 100_000,
    });
  });
  afterAll(() => under?.stop());
  beforeEach(async () => {
    browser = new Browser();
    const shopId = await under.newShop();
    await installs.bench.client.updateSettings({ shopId, actor, settings: { currency: 'GBP' } });
    store = { shopId, shopDomain: `mugs-${shopId}.myshopify.com` };
    installs.shopify.reset();
  });

  const show = (path: string): Promise<Shown> => browser.send(`${under.gateway.baseUrl}${path}`);
  const open = (link: string): Promise<Shown> => show(`/commerce/shopify/install?link=${link}`);
  const locationOf = ({ headers }: Shown): string => headers.get('location') ?? '';

  /** Opens a new link, and comes back from Shopify with the same browser. */
  async function comeBack(o: ComeBack = {}): Promise<string> {
    const shown = await open(await installs.newLink(store));
    return `${CALLBACK}?${installs.shopify.comeBack(locationOf(shown), o)}`;
  }

  const textOf = ({ text }: Shown): string => /<main>(.*)<\/main>/s.exec(text)?.[1] ?? '';

  async function audited(): Promise<unknown[]> {
    const { rows } = await under.database.pool.query(
      'select action, actor_id, detail from audit_log where shop_id = $1 order by id',
      [store.shopId],
    );
    return rows;
  }

  describe('an install through the gateway', () => {
    test('redirects to Shopify, and connects the shop of the browser that comes back', async () => {
      const shown = await open(await installs.newLink(store));
      expect(shown.status).toBe(303);
      const target = new URL(locationOf(shown));
      expect(target.hostname).toBe(store.shopDomain);
      expect(target.searchParams.get('redirect_uri')).toBe(`${PUBLIC}${CALLBACK}`);
      expect(shown.headers.get('cache-control')).toBe('no-store');
      const [cookie = ''] = shown.headers.getSetCookie();
      expect(cookie).toMatch(
        /^__Host-rms_shopify=[A-Za-z0-9_-]{43}; Max-Age=900; Path=\/; HttpOnly; SameSite=Lax; Secure$/,
      );
      const done = await show(`${CALLBACK}?${installs.shopify.comeBack(target.href)}`);
      expect(done.status).toBe(200);
      expect(textOf(done)).toContain(
        `${store.shopDomain} is connected to shop no. ${store.shopId}.`,
      );
      expect(await installs.connection(store)).toMatchObject({ shopDomain: store.shopDomain });
      expect(await audited()).toEqual([
        {
          action: 'commerce.shopify.connected',
          actor_id: 'shopify-install',
          detail: { domain: store.shopDomain },
        },
      ]);
    });

    test('shows the same page to a browser that repeats the callback', async () => {
      const path = await comeBack();
      const first = await show(path);
      expect(textOf(await show(path))).toBe(textOf(first));
      expect(installs.shopify.receiver.received).toHaveLength(1);
    });

    test('its pages load nothing, run no script, and are not stored', async () => {
      const shown = await open('unknown');
      const policy = shown.headers.get('content-security-policy') ?? '';
      expect(policy).toMatch(/^default-src 'none'; style-src 'sha256-/);
      expect(policy).toContain("form-action 'none'");
      expect(Object.fromEntries(shown.headers)).toMatchObject({
        'cache-control': 'no-store',
        'x-frame-options': 'DENY',
        'content-type': 'text/html; charset=utf-8',
      });
    });

    test('has no other methods', async () => {
      const url = `${under.gateway.baseUrl}${CALLBACK}`;
      expect((await browser.send(url, { method: 'POST', body: 'x' })).status).toBe(405);
    });
  });

  describe('an install is refused with a page that says what to do', () => {
    const refused = async (shown: Shown, status: number, text: string): Promise<void> => {
      expect([shown.status, textOf(shown)]).toEqual([status, expect.stringContaining(text)]);
      expect(await audited()).toEqual([]);
    };

    test.each(['', '?link=unknown', `?link=${'x'.repeat(9_000)}`])(
      'for a link %#',
      async (query) => {
        await refused(await show(`/commerce/shopify/install${query}`), 400, 'for a new one');
      },
    );

    test('without a signature', async () => {
      const path = await comeBack({ change: (query) => query.set('code', 'x') });
      await refused(await show(path), 400, 'Shopify did not sign it');
    });

    test('in another browser', async () => {
      const path = await comeBack();
      browser = new Browser();
      await refused(await show(path), 400, 'began in another browser');
    });

    test('for another store', async () => {
      const path = await comeBack({ store: 'other.myshopify.com' });
      await refused(await show(path), 400, `is for ${store.shopDomain}.`);
    });

    test('when it was denied', () =>
      show(`${CALLBACK}?error=access_denied`).then((shown) =>
        refused(shown, 403, 'was not allowed'),
      ));

    test('when scopes are missing, with their names', async () => {
      installs.shopify.grant(NEEDED_SCOPES.slice(1).join(','));
      await refused(await show(await comeBack()), 403, `these scopes: ${NEEDED_SCOPES[0]}.`);
    });

    test('when Shopify gives no token; the link works again', async () => {
      installs.shopify.receiver.answer = (response) => void response.writeHead(500).end();
      const shown = await show(await comeBack());
      await refused(shown, 503, 'Shopify does not answer');
      expect(shown.headers.get('retry-after')).toBe('5');
      installs.shopify.reset();
      expect((await show(await comeBack())).status).toBe(200);
    });

    test("when the store is another shop's", async () => {
      const path = await comeBack();
      const other = { ...store, shopId: await installs.bench.shop() };
      await installs.install(other);
      await refused(await show(path), 409, 'connected to another shop');
    });

    test('when an outcome is unknown', async () => {
      const path = await comeBack();
      await installs.loseAnswer(store);
      await refused(await show(path), 409, 'its answer is not known yet');
    });
  });

  test('installs have a limit by address, and a page when the returns service is away', async () => {
    const away = await startTestGateway({
      RETURNS_TARGET: '127.0.0.1:1',
      SHOPIFY_INSTALL_PER_HOUR: 2,
    });
    const url = `${away.gateway.baseUrl}${CALLBACK}`;
    const statuses = [];
    for (let at = 0; at < 3; at += 1) statuses.push((await browser.send(url)).status);
    await away.stop();
    expect(statuses).toEqual([503, 503, 429]);
  });
});

describe('shopify webhooks', () => {
  const lines: string[] = [];
  let under: TestGateway;
  let store: TestStore;
  beforeAll(async () => {
    under = await startTestGateway({
      RETURNS_TARGET: installs.bench.target,
      FAILED_CREDENTIALS_PER_MINUTE: 3,
      LOG_LEVEL: 'info',
      logDestination: { write: (line: string): void => void lines.push(line) },
    });
  });
  afterAll(() => under?.stop());
  beforeEach(async () => {
    store = await installs.newStore();
    await installs.install(store);
    await under.gateway.resetLimits();
  });

  const uninstalled = (): SignedWebhook =>
    installs.shopify.webhook(store.shopDomain, 'app/uninstalled', {
      myshopify_domain: store.shopDomain,
      name: 'Müsli & Co',
    });

  async function post(
    { body, ...webhook }: SignedWebhook,
    headers: Record<string, string> = {},
  ): Promise<{ readonly status: number; readonly headers: Headers }> {
    const response = await fetch(`${under.gateway.baseUrl}/commerce/shopify/webhooks`, {
      method: 'POST',
      body,
      headers: {
        'Content-Type': 'application/json',
        'X-Shopify-Hmac-Sha256': webhook.hmac,
        'X-Shopify-Shop-Domain': webhook.shopDomain,
        'X-Shopify-Topic': webhook.topic,
        'X-Shopify-Webhook-Id': webhook.webhookId,
        ...headers,
      },
    });
    await response.arrayBuffer();
    return response;
  }

  const isInstalled = async (): Promise<boolean> =>
    (await installs.connection(store))?.uninstalledAt === undefined;

  describe('POST /commerce/shopify/webhooks', () => {
    test('answers 200 to a webhook that Shopify signed, and handles it', async () => {
      const triggered = { 'X-Shopify-Triggered-At': new Date(Date.now() + 60_000).toISOString() };
      expect((await post(uninstalled(), triggered)).status).toBe(200);
      expect(await isInstalled()).toBe(false);
    });

    test('answers 200 also to unknown topics and stores', async () => {
      expect((await post({ ...uninstalled(), topic: 'carts/update' })).status).toBe(200);
      expect((await post({ ...uninstalled(), shopDomain: 'x.myshopify.com' })).status).toBe(200);
      expect(await isInstalled()).toBe(true);
    });

    test('ignores an event that is older than the install', async () => {
      const old = { 'X-Shopify-Triggered-At': '2026-01-01T00:00:00.123456789Z' };
      expect((await post(uninstalled(), old)).status).toBe(200);
      expect(await isInstalled()).toBe(true);
    });

    test('answers 401 to a wrong signature, and 429 to an address with many of them', async () => {
      const wrong = {
        ...uninstalled(),
        hmac: uninstalled().hmac.replace(/^./, (c) => (c === 'A' ? 'B' : 'A')),
      };
      const statuses = [];
      for (let at = 0; at < 5; at += 1) statuses.push((await post(wrong)).status);
      expect(statuses).toEqual([401, 401, 401, 429, 429]);
      const isLogged = (line: string) => line.includes('"refused":"wrong signature"');
      await until(() => lines.filter(isLogged).length >= 3);
      expect((await post(uninstalled())).status).toBe(429);
      expect(await isInstalled()).toBe(true);
    });

    test.each<[string, number, () => Partial<SignedWebhook>, Record<string, string>]>([
      ['no body', 400, () => ({ body: new Uint8Array(0) }), {}],
      ['a body above 1 MiB', 413, () => ({ body: new Uint8Array(1024 * 1024 + 1) }), {}],
      [
        'a body that inflates above 1 MiB',
        413,
        () => ({ body: new Uint8Array(gzipSync(Buffer.alloc(2 * 1024 * 1024))) }),
        { 'Content-Encoding': 'gzip' },
      ],
      ['another media type', 415, () => ({}), { 'Content-Type': 'text/plain' }],
    ])('rejects %s', async (_, status, change, headers) => {
      expect((await post({ ...uninstalled(), ...change() }, headers)).status).toBe(status);
      expect(await isInstalled()).toBe(true);
    });

    test('accepts no other method', async () => {
      const response = await fetch(`${under.gateway.baseUrl}/commerce/shopify/webhooks`);
      expect([response.status, response.headers.get('allow')]).toEqual([405, 'POST, OPTIONS']);
    });

    test('keeps no connection of a client that ends its body early', async () => {
      const { port } = under.gateway;
      const headers = { 'Content-Type': 'application/json', 'Content-Length': 100 };
      const call = request({ port, method: 'POST', path: '/commerce/shopify/webhooks', headers });
      const closed = new Promise((resolve) => call.once('close', resolve).on('error', () => {}));
      call.write('{');
      setImmediate(() => call.destroy());
      await closed;
      expect((await post(uninstalled())).status).toBe(200);
    });
  });

  test('answers 503 while the returns service is away, so that Shopify repeats', async () => {
    const away = await startTestGateway({ RETURNS_TARGET: '127.0.0.1:1' });
    const response = await fetch(`${away.gateway.baseUrl}/commerce/shopify/webhooks`, {
      method: 'POST',
      body: '{}',
      headers: { 'Content-Type': 'application/json' },
    });
    await away.stop();
    expect(response.status).toBe(503);
  });
});
