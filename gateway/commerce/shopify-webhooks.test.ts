import { request } from 'node:http';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import type { SignedWebhook } from '../../test/kit/commerce/fake-shopify-app.ts';
import {
  type InstallBench,
  startInstallBench,
  type TestStore,
} from '../../test/kit/commerce/install-bench.ts';
import { startTestGateway, type TestGateway } from '../../test/kit/gateway/test-gateway.ts';

let under: TestGateway;
let installs: InstallBench;
let store: TestStore;
beforeAll(async () => {
  installs = await startInstallBench();
  under = await startTestGateway({
    RETURNS_TARGET: installs.bench.target,
    FAILED_CREDENTIALS_PER_MINUTE: 3,
  });
});
afterAll(async () => {
  await under?.stop();
  await installs?.stop();
});
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
