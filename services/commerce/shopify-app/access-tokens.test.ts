import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { createNoopMeter } from '@opentelemetry/api';
import type pg from 'pg';
import {
  SHOPIFY_CLIENT_ID,
  SHOPIFY_CLIENT_SECRET,
} from '../../../test/kit/commerce/fake-shopify-app.ts';
import {
  type InstallBench,
  startInstallBench,
  type TestStore,
} from '../../../test/kit/commerce/install-bench.ts';
import { silent } from '../../../test/kit/services/processing.ts';
import { actor } from '../../../test/kit/services/running-service.ts';
import { type Kill, poolOf, simulateProcess, WHENS } from '../../../test/kit/simulated-process.ts';
import { until } from '../../../test/kit/until.ts';
import { newKeyringText, parseKeyring } from '../../platform/security/keyring.ts';
import type { CommerceClient } from '../http/client.ts';
import { type AccessTokens, createAccessTokens } from './access-tokens.ts';

// Access tokens that expire. The fake of Shopify accepts a used refresh token again until its replacement was used, and
// one access token at a time.

const keyring = parseKeyring(newKeyringText());
const app = { clientId: SHOPIFY_CLIENT_ID, clientSecret: SHOPIFY_CLIENT_SECRET, extraScopes: [] };
const meter = createNoopMeter();
/** Seconds until a token expires that is due to be refreshed, and can be used until then. */
const SOON_S = 300;
/** Seconds until a token expires that is not used any more. */
const TOO_SOON_S = 5;

let under: InstallBench;
let client: CommerceClient;
let store: TestStore;
beforeAll(async () => {
  under = await startInstallBench({ COMMERCE_KEYRING: keyring });
  client = under.shopify.openClient();
});
afterAll(async () => {
  await client?.close();
  await under?.stop();
});
beforeEach(async () => {
  under.shopify.reset();
  store = await under.newStore();
});

function accessTokens(o: { pool?: pg.Pool; client?: CommerceClient } = {}): AccessTokens {
  const { pool } = under.bench.db;
  return createAccessTokens({ pool, client, app, keyring, meter, logger: silent, ...o });
}

/** Installs the app with a token that expires in so many seconds; later ones are valid for an hour. */
async function install(expiresIn: number): Promise<void> {
  under.shopify.tokens.expiresIn = expiresIn;
  await under.install(store);
  under.shopify.tokens.expiresIn = 3_600;
  under.shopify.receiver.received.length = 0;
}

const asked = () => under.shopify.receiver.received.length;
const change = (columns: string) =>
  under.bench.db.pool.query(`update shopify_tokens set ${columns} where shop_id = $1`, [
    store.shopId,
  ]);
async function removeApp(): Promise<void> {
  const { shopDomain } = store;
  const removed = { id: 1, myshopify_domain: shopDomain };
  const webhook = under.shopify.webhook(shopDomain, 'app/uninstalled', removed);
  await under.commerce.receiveShopifyWebhook(webhook);
}
const isValid = (token: string) => under.shopify.tokens.isValid(store.shopDomain, token);
const newest = () => under.shopify.tokens.issued.at(-1);

describe('the access to a store', () => {
  test('is the token of the install while it is valid for long', async () => {
    await install(3_600);
    expect((await accessTokens().of(store)).accessToken).toBe(newest());
    expect(asked()).toBe(0);
  });

  test('is refreshed before it expires; the secret of gift card codes stays', async () => {
    await install(3_600);
    const { codeSecret } = await accessTokens().of(store);
    await change("expires_at = now() + interval '5 minutes'");
    const refreshed = await accessTokens().of(store);
    expect(refreshed).toEqual({ accessToken: newest(), codeSecret });
    expect(await accessTokens().of(store)).toEqual(refreshed);
    expect(asked()).toBe(1);
  });

  test('is refreshed with the newest refresh token, because Shopify accepts the one before for 30 days only', async () => {
    await install(TOO_SOON_S);
    const { used, refreshOf } = under.shopify.tokens;
    const expected: (string | undefined)[] = [];
    for (let refreshes = 0; refreshes < 3; refreshes += 1) {
      expected.push(refreshOf(store.shopDomain));
      await accessTokens().of(store);
      await change('expires_at = now()');
    }
    expect(used.slice(-3)).toEqual(expected);
  });

  test('keeps the secret of gift card codes in another install, also after the app was removed', async () => {
    await install(3_600);
    const { codeSecret } = await accessTokens().of(store);
    await install(3_600);
    expect(await accessTokens().of(store)).toEqual({ accessToken: newest(), codeSecret });
    await removeApp();
    await install(3_600);
    expect(await accessTokens().of(store)).toEqual({ accessToken: newest(), codeSecret });
  });

  test('of an app without refresh tokens never expires', async () => {
    under.shopify.tokens.areExpiring = false;
    await install(3_600);
    expect((await accessTokens().of(store)).accessToken).toBe(newest());
    await accessTokens().rejected(store, newest() ?? '');
    expect((await accessTokens().of(store)).accessToken).toBe(newest());
    expect(asked()).toBe(0);
  });

  test('is refreshed once by many callers in several processes', async () => {
    await install(SOON_S);
    const processes = [accessTokens(), accessTokens(), accessTokens()];
    const calls = processes.flatMap((one) => [one.of(store), one.of(store), one.of(store)]);
    const got = await Promise.all(calls);
    expect(asked()).toBe(1);
    expect(got.map(({ accessToken }) => accessToken)).toContain(newest());
    const all = await Promise.all(processes.map((one) => one.of(store)));
    expect(new Set(all.map(({ accessToken }) => accessToken))).toEqual(new Set([newest()]));
  });

  test('waits for the refresh of another process when the token has expired', async () => {
    await install(TOO_SOON_S);
    await change("refreshing_until = now() + interval '1 minute'");
    await expect(accessTokens().of(store)).rejects.toMatchObject({
      kind: 'passing',
      isUnsent: true,
      retryAfterMs: expect.any(Number),
      message: expect.stringContaining('has expired'),
    });
    expect(asked()).toBe(0);
  });

  test.each([
    ['500', 500, ''],
    ['a page of a proxy', 403, '<html>'],
    ['an answer without a token', 200, '{}'],
  ])('stays as it is after %s, until it expires', async (_, status, body) => {
    await install(SOON_S);
    const before = newest();
    under.shopify.receiver.answer = (response) => void response.writeHead(status).end(body);
    expect((await accessTokens().of(store)).accessToken).toBe(before);
    await change('expires_at = now()');
    await expect(accessTokens().of(store)).rejects.toMatchObject({ isUnsent: true });
    expect((await under.connection(store))?.refusedAt).toBeUndefined();
    // Nobody asks again at once.
    expect(asked()).toBe(1);
    under.shopify.reset();
    await change('refreshing_until = null');
    expect(isValid((await accessTokens().of(store)).accessToken)).toBe(true);
  });

  test('that Shopify refuses to refresh is named as the problem, until another install', async () => {
    await install(TOO_SOON_S);
    under.shopify.tokens.revoke(store.shopDomain);
    const failure = { isUnsent: true, message: expect.stringContaining('install it again') };
    await expect(accessTokens().of(store)).rejects.toMatchObject(failure);
    await expect(accessTokens().of(store)).rejects.toMatchObject(failure);
    expect(asked()).toBe(1);
    expect((await under.connection(store))?.refusedAt).toBeDefined();
    await install(3_600);
    expect((await accessTokens().of(store)).accessToken).toBe(newest());
    expect((await under.connection(store))?.refusedAt).toBeUndefined();
  });

  test('is refreshed when Shopify does not accept the token any more', async () => {
    await install(3_600);
    const old = newest() ?? '';
    await accessTokens().rejected(store, old);
    const { accessToken } = await accessTokens().of(store);
    expect([accessToken !== old, isValid(accessToken)]).toEqual([true, true]);
    // A late answer to a request with the old token says nothing about the new one.
    await accessTokens().rejected(store, old);
    expect((await accessTokens().of(store)).accessToken).toBe(accessToken);
    expect(asked()).toBe(1);
  });

  test('goes on after an answer that has neither a time nor another refresh token', async () => {
    await install(TOO_SOON_S);
    const { answer } = under.shopify.receiver;
    under.shopify.receiver.answer = (response) =>
      void response.end(JSON.stringify({ access_token: 'shpat_short' }));
    expect((await accessTokens().of(store)).accessToken).toBe('shpat_short');
    await change('expires_at = now()');
    under.shopify.receiver.answer = answer;
    expect(isValid((await accessTokens().of(store)).accessToken)).toBe(true);
  });

  test('is not stored when the merchant removes the app during the refresh', async () => {
    await install(TOO_SOON_S);
    const { answer } = under.shopify.receiver;
    under.shopify.receiver.answer = async (response, received, nth) => {
      await removeApp();
      await answer(response, received, nth);
    };
    await expect(accessTokens().of(store)).rejects.toThrow('not installed');
    await expect(accessTokens().of(store)).rejects.toThrow('not installed');
    expect((await under.connection(store))?.uninstalledAt).toBeDefined();
  });
});

describe('a process that is killed while it refreshes', () => {
  const kills: (Kill | undefined)[] = [undefined];
  for (let at = 1; at <= 6; at += 1) for (const when of WHENS) kills.push({ at, when });

  /** Gets the access in a process that is killed. Returns the number of its steps. */
  async function killed(kill: Kill | undefined): Promise<number> {
    const simulated = simulateProcess(kill);
    const post: CommerceClient['post'] = (o) => simulated.step(() => client.post(o));
    const pool = poolOf(simulated, under.bench.db.pool);
    const access = accessTokens({ pool, client: { ...client, post } });
    await access.of(store).catch((error: unknown) => {
      if (!simulated.isKilled) throw error;
    });
    await simulated.finished();
    // The claim of a dead process ends.
    await change('refreshing_until = null');
    return simulated.steps;
  }

  test.each(kills)('at any step (%j), twice, leaves a store that can be used', async (kill) => {
    await install(TOO_SOON_S);
    const steps = await killed(kill);
    if (!kill) expect(steps).toBe(6);
    await killed(kill);
    for (let refreshes = 0; refreshes < 3; refreshes += 1) {
      expect(isValid((await accessTokens().of(store)).accessToken)).toBe(true);
      await change('expires_at = now()');
    }
  });
});

describe('the job that keeps the access', () => {
  test('refreshes tokens that nobody used for a week, and no others', async () => {
    await install(3_600);
    await accessTokens().refreshStale();
    expect(asked()).toBe(0);
    await change(
      "refreshed_at = now() - interval '8 days', expires_at = now() - interval '7 days'",
    );
    await accessTokens().refreshStale();
    await accessTokens().refreshStale();
    expect(asked()).toBe(1);
    expect(isValid((await accessTokens().of(store)).accessToken)).toBe(true);
  });

  test('does not ask again for a token that Shopify refuses', async () => {
    await install(3_600);
    under.shopify.tokens.revoke(store.shopDomain);
    await change("refreshed_at = now() - interval '8 days', expires_at = now()");
    await accessTokens().refreshStale();
    await change('refreshing_until = null');
    await accessTokens().refreshStale();
    expect(asked()).toBe(1);
  });
});

test('a return is processed with a token that was refreshed', async () => {
  await install(TOO_SOON_S);
  const { answer } = under.shopify.receiver;
  const used = new Set<string>();
  under.shopify.receiver.answer = (response, received, nth) => {
    const token = received.headers['x-shopify-access-token'];
    if (token === undefined) return answer(response, received, nth);
    used.add(String(token));
    response.writeHead(503).end();
  };
  const { shopId } = store;
  const { id: returnId } = await under.bench.submit(shopId);
  await under.bench.client.processReturn({ shopId, actor, returnId });
  await until(async () => used.size > 0);
  expect([...used].map(isValid)).toEqual([true]);
});
