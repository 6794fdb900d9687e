import { createHmac, randomBytes, randomUUID } from 'node:crypto';
import {
  type CommerceClient,
  createCommerceClient,
} from '../../../services/commerce/http/client.ts';
import {
  createShopifyClient,
  type ShopifyClient,
} from '../../../services/commerce/shopify/client.ts';
import { NEEDED_SCOPES } from '../../../services/commerce/shopify-app/app.ts';
import { type Received, startReceiver } from '../webhooks/receiver.ts';
import { createFakeTokens } from './fake-tokens.ts';

export const SHOPIFY_CLIENT_ID = 'client-of-tests';
export const SHOPIFY_CLIENT_SECRET = 'secret-of-tests';

const LOOPBACK = { allowedOrigins: ['http://127.0.0.1:*'], stackPorts: () => [] };

/** What the merchant decided about the page that the authorize URL shows. */
interface Decision {
  /** The store of the merchant; by default that of the authorize URL. */
  readonly store?: string;
  readonly secret?: string;
  readonly change?: (query: URLSearchParams) => void;
}

/**
 * Shopify's side of an install, on loopback: it redirects browsers back with a signed query, and exchanges each code once
 * for a token. Its clients reach it instead of every store.
 */
export async function startFakeShopifyApp() {
  const receiver = await startReceiver();
  const codes = new Map<string, string>();
  const tokens = createFakeTokens();
  /** The scopes that merchants grant. */
  let granted = NEEDED_SCOPES.join(',');
  const exchange: typeof receiver.answer = (response, received) => {
    const form = new URLSearchParams(received.body);
    const code = form.get('code') ?? '';
    const isApp =
      form.get('client_id') === SHOPIFY_CLIENT_ID &&
      form.get('client_secret') === SHOPIFY_CLIENT_SECRET;
    const store = storeOf(received);
    const refreshed = tokens.refresh(store, form.get('refresh_token') ?? '');
    if (isApp && form.get('grant_type') === 'refresh_token' && refreshed) {
      response.end(JSON.stringify({ ...refreshed, scope: granted }));
      return;
    }
    if (!isApp || codes.get(code) !== store) {
      response.writeHead(400).end(JSON.stringify({ error: 'invalid_request' }));
      return;
    }
    codes.delete(code);
    const installed = tokens.install(store, form.get('expiring') === '1');
    response.end(JSON.stringify({ ...installed, scope: granted }));
  };
  receiver.answer = exchange;
  return {
    receiver,
    /** The tokens of the stores. */
    tokens,
    grant(scopes: string): void {
      granted = scopes;
    },
    reset(): void {
      granted = NEEDED_SCOPES.join(',');
      tokens.areExpiring = true;
      tokens.expiresIn = 3_600;
      receiver.answer = exchange;
      receiver.received.length = 0;
    },
    openClient: (): CommerceClient => clientTo(receiver.url),
    openAdminClient: (): ShopifyClient =>
      createShopifyClient({ policy: LOOPBACK, origin: receiver.url }),
    /** The query with which the browser comes back from the authorize URL. */
    comeBack(authorizeUrl: string, o: Decision = {}): string {
      const url = new URL(authorizeUrl);
      const store = o.store ?? url.hostname;
      const code = randomBytes(16).toString('hex');
      codes.set(code, store);
      const host = Buffer.from(`admin.shopify.com/store/${store.split('.')[0]}`).toString('base64');
      const state = url.searchParams.get('state') ?? '';
      const timestamp = String(Math.floor(Date.now() / 1_000));
      const query = new URLSearchParams({ code, host, shop: store, state, timestamp });
      query.sort();
      const secret = o.secret ?? SHOPIFY_CLIENT_SECRET;
      query.append('hmac', createHmac('sha256', secret).update(query.toString()).digest('hex'));
      o.change?.(query);
      return query.toString();
    },
    webhook: signedWebhook,
    stop: () => receiver.stop(),
  };
}

export type FakeShopifyApp = Awaited<ReturnType<typeof startFakeShopifyApp>>;

/** A webhook as Shopify sends it. */
export interface SignedWebhook {
  readonly body: Uint8Array<ArrayBuffer>;
  readonly hmac: string;
  readonly shopDomain: string;
  readonly topic: string;
  readonly webhookId: string;
}

function signedWebhook(
  shopDomain: string,
  topic: string,
  content: object,
  o: { readonly secret?: string } = {},
): SignedWebhook {
  const body = Buffer.from(JSON.stringify(content));
  const secret = o.secret ?? SHOPIFY_CLIENT_SECRET;
  const hmac = createHmac('sha256', secret).update(body).digest('base64');
  return { body, hmac, shopDomain, topic, webhookId: randomUUID() };
}

function storeOf({ headers }: Received): string {
  return String(headers['x-test-store']);
}

function clientTo(fakeUrl: string): CommerceClient {
  const client = createCommerceClient({ policy: LOOPBACK });
  return {
    post({ url, headers, ...rest }) {
      const { hostname, pathname } = new URL(url);
      const here = { ...headers, 'x-test-store': hostname };
      return client.post({ ...rest, url: `${fakeUrl}${pathname}`, headers: here });
    },
    close: () => client.close(),
  };
}
