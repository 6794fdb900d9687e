import type { Client } from '@connectrpc/connect';
import { CommerceService } from '../../../proto/gen/rms/commerce/v1/commerce_pb.ts';
import { Actor_Kind } from '../../../proto/gen/rms/common/v1/actor_pb.ts';
import { deadline } from '../../../services/platform/process/deadlines.ts';
import { createServiceClient } from '../../../services/platform/rpc/client.ts';
import { startReturnsBench } from '../services/returns-bench.ts';
import { actor, identity } from '../services/running-service.ts';
import {
  type FakeShopifyApp,
  SHOPIFY_CLIENT_ID,
  SHOPIFY_CLIENT_SECRET,
  startFakeShopifyApp,
} from './fake-shopify-app.ts';

export const REDIRECT = 'https://returns.example.com/commerce/shopify/callback';

/** A browser that comes back from Shopify; by default the one that went there. */
export type ComeBack = Parameters<FakeShopifyApp['comeBack']>[1] & { readonly browser?: string };

export interface TestStore {
  readonly shopId: bigint;
  readonly shopDomain: string;
}

/** The returns service in production, with a Shopify app, and Shopify's side of installs. */
export async function startInstallBench(o: Parameters<typeof startReturnsBench>[0] = {}) {
  const shopify = await startFakeShopifyApp();
  const bench = await startReturnsBench({
    ...o,
    NODE_ENV: 'production',
    SHOPIFY_CLIENT_ID,
    SHOPIFY_CLIENT_SECRET,
    openCommerceClient: shopify.openClient,
    openShopifyClient: shopify.openAdminClient,
  });
  const channel = createServiceClient(CommerceService, { target: bench.target, identity });
  return {
    shopify,
    bench,
    commerce: channel.client,
    ...installs(channel.client, shopify),
    async newStore(): Promise<TestStore> {
      const shopId = await bench.shop();
      return { shopId, shopDomain: `store-${shopId}.myshopify.com` };
    },
    /** Adds an effect of the shop that was requested and has no answer. */
    async loseAnswer({ shopId }: TestStore): Promise<void> {
      const { id } = await bench.submit(shopId);
      await bench.db.pool.query(
        `insert into processing_outcomes (shop_id, return_id, kind, key, amount, currency, asked_at, first_asked_at)
         values ($1, $2, 'refund', 'rms:lost', 1, 'GBP', now(), now())`,
        [shopId, id],
      );
    },
    async stop() {
      channel.close();
      await bench.stop();
      await shopify.stop();
    },
  };
}

export type InstallBench = Awaited<ReturnType<typeof startInstallBench>>;

/** Longer than the exchange of a code. Milliseconds. */
const TIMEOUT = { timeoutMs: deadline(30_000) };

/** The operator's link works in every browser. */
const OPERATOR = { kind: Actor_Kind.SYSTEM, id: 'admin', name: 'Operator' };

/** The steps of an install. */
function installs(commerce: Client<typeof CommerceService>, shopify: FakeShopifyApp) {
  const newLink = async (store: TestStore): Promise<string> =>
    (await commerce.createShopifyInstallLink({ ...store, actor: OPERATOR })).link;
  const open = (link: string) =>
    commerce.beginShopifyInstall({ query: `link=${link}`, redirectUrl: REDIRECT });
  const attempt = async (store: TestStore, o: ComeBack = {}) => {
    const { authorizeUrl, browser } = await open(await newLink(store));
    return { query: shopify.comeBack(authorizeUrl, o), browser: o.browser ?? browser };
  };
  const complete = (callback: { readonly query: string; readonly browser: string }) =>
    commerce.completeShopifyInstall(callback, TIMEOUT);
  return {
    newLink,
    open,
    /** Opens a new link, and comes back from Shopify. */
    attempt,
    complete,
    install: async (store: TestStore, o: ComeBack = {}) => complete(await attempt(store, o)),
    connection: async ({ shopId }: TestStore) =>
      (await commerce.getConnection({ shopId, actor })).connection,
  };
}
