import type {
  CommerceProvider,
  EffectKind,
  EffectRequest,
} from '../../../../services/commerce/provider.ts';
import {
  createShopifyCommerce,
  type ShopifyCommerceOptions,
} from '../../../../services/commerce/shopify/adapter.ts';
import { createShopifyClient } from '../../../../services/commerce/shopify/client.ts';
import { ACCESS, exampleShop, POLICY, SHOP_DOMAIN, TOKEN } from './example-shop.ts';
import { type Fault, type ShopifyServerOptions, startShopify } from './server.ts';
import type { Shop } from './shop.ts';

/** The adapter `shopify` with a server for it. */
export interface ShopifyBench {
  readonly shop: Shop;
  /** The faults of the next requests, by operation. */
  readonly faults: Map<string, Fault>;
  /** The names of the operations that arrived since the newest start. */
  operations(): readonly string[];
  /** Starts the server again, with the same shop and other options. */
  restart(more: Partial<ShopifyServerOptions>): Promise<void>;
  commerce(more?: Partial<ShopifyCommerceOptions>): CommerceProvider;
  /** The error of a request; what it has made, if there is none. */
  failure(asked: EffectRequest): Promise<unknown>;
  stop(): Promise<void>;
}

const never = new AbortController().signal;

/** Starts a server for the shop of {@link exampleShop}. */
export async function startShopifyBench(): Promise<ShopifyBench> {
  const shop = exampleShop();
  const faults = new Map<string, Fault>();
  const fault = (operation: string) => {
    const next = faults.get(operation);
    faults.delete(operation);
    return next;
  };
  const open = async (more: Partial<ShopifyServerOptions>) => {
    const server = await startShopify({ shop, token: TOKEN, fault, ...more });
    return { server, client: createShopifyClient({ policy: POLICY, origin: server.origin }) };
  };
  let opened = await open({});
  const stop = async () => {
    await opened.client.close();
    await opened.server.stop();
  };
  const commerce: ShopifyBench['commerce'] = (more = {}) => {
    const { client } = opened;
    const access = async () => ACCESS;
    const of = { client, shopDomain: SHOP_DOMAIN, access, sandbox: false };
    return createShopifyCommerce({ ...of, ...more });
  };
  return {
    shop,
    faults,
    stop,
    commerce,
    operations: () => opened.server.operations,
    async restart(more) {
      await stop();
      opened = await open(more);
    },
    failure: (asked) =>
      commerce()
        .create(asked, never)
        .catch((error: unknown) => error),
  };
}

/** A request of 1240 yen for a return of the order #1001. */
export function shopifyRequest(kind: EffectKind, more: Partial<EffectRequest> = {}): EffectRequest {
  const item = { productId: 1n, variantId: 9n, sku: 'HAT', title: 'Hat' };
  const line = {
    providerLineItemId: 9001n,
    sku: 'MUG-1',
    quantity: 1,
    refund: '1240',
    shipping: '0',
  };
  return {
    kind,
    shopId: 7n,
    returnId: 8n,
    providerOrderId: 445n,
    orderName: '#1001',
    key: `rms:return:8:${kind}`,
    amount: '1240',
    currency: 'JPY',
    items:
      kind === 'exchange_order' ? [{ ...item, price: '1300', discount: '100', tax: '40' }] : [],
    lines: kind === 'refund' ? [line] : [],
    stock: [],
    orderToCancel: undefined,
    details: {},
    ...more,
  };
}
