import { z } from 'zod';
import {
  CommerceFailure,
  type CommerceProvider,
  type Effect,
  type EffectKind,
  type EffectRequest,
  isUnsent,
} from '../provider.ts';
import { cancelOrder, findCancelledOrder } from './cancel-order.ts';
import { type Operation, type ShopifyClient, type ShopifyShop, Unauthorized } from './client.ts';
import { createExchangeOrder, findExchangeOrder } from './exchange-order.ts';
import { createGiftCard, findGiftCard } from './gift-card.ts';
import { findOrder } from './order.ts';
import { createRefund, findRefund } from './refund.ts';
import { adjustStock, findRestock, KEY_KEPT_MS } from './restock.ts';

/**
 * Time after which an effect that the search does not find was not made. Shopify's search shows new drafts and gift
 * cards late, and Shopify does not say how late. Three minutes are much longer than usual, and leave time for another
 * attempt in the 15 minutes of processing. Milliseconds.
 */
const SETTLED_AFTER_MS = 180_000;

export interface ShopifyCommerceOptions {
  readonly client: ShopifyClient;
  readonly shopDomain: string;
  /** Returns the current token, and the secret for codes. @throws CommerceFailure unsent, when there is none. */
  readonly access: () => Promise<Omit<ShopifyShop, 'shopDomain'>>;
  /** Called with a token that Shopify did not accept, so that it is refreshed. */
  readonly onRejected?: (accessToken: string) => Promise<void>;
  /** Whether no money may move. Then the adapter only uses a development store. */
  readonly sandbox: boolean;
}

export const SHOP_PLAN = {
  name: 'ShopPlan',
  text: 'query ShopPlan { shop { plan { partnerDevelopment } } }',
  data: z.object({
    shop: z.object({ plan: z.object({ partnerDevelopment: z.boolean() }) }),
  }),
} satisfies Operation<z.ZodType>;

type Act<T> = (
  client: ShopifyClient,
  shop: ShopifyShop,
  asked: { readonly request: EffectRequest; readonly signal: AbortSignal },
) => Promise<T>;

const CREATE: Readonly<Record<EffectKind, Act<Effect>>> = {
  exchange_order: createExchangeOrder,
  gift_card: createGiftCard,
  refund: createRefund,
  restock: adjustStock,
  order_cancel: cancelOrder,
};

const FIND: Readonly<Record<EffectKind, Act<Effect | undefined>>> = {
  exchange_order: findExchangeOrder,
  gift_card: findGiftCard,
  refund: findRefund,
  restock: findRestock,
  order_cancel: findCancelledOrder,
};

/** Creates the provider for a Shopify store. See docs/commerce-shopify.md. */
export function createShopifyCommerce(o: ShopifyCommerceOptions): CommerceProvider {
  const { shopDomain } = o;
  const client = reporting(o);
  const accessed = async (): Promise<ShopifyShop> => ({ shopDomain, ...(await o.access()) });
  return {
    settledAfterMs: SETTLED_AFTER_MS,
    repeatableForMs: { restock: KEY_KEPT_MS },
    async create(request, signal) {
      const watched = watch(client);
      try {
        const shop = await accessed();
        if (o.sandbox) await requireDevelopmentStore(watched.client, shop, signal);
        return await CREATE[request.kind](watched.client, shop, { request, signal });
      } catch (error) {
        throw watched.hasMutated() ? error : unsent(error);
      }
    },
    find: async (request, signal) =>
      FIND[request.kind](client, await accessed(), { request, signal }),
    lookUp: async ({ name }, signal) => findOrder(client, await accessed(), { name, signal }),
    // Shopify cannot list refunds of a period.
    list: async () => undefined,
  };
}

/** Calls `onRejected` for tokens that Shopify does not accept. */
function reporting({ client, onRejected }: ShopifyCommerceOptions): ShopifyClient {
  return {
    close: client.close,
    async run(asked) {
      try {
        return await client.run(asked);
      } catch (error) {
        // Ignore a failed report. The next answer causes another one.
        if (error instanceof Unauthorized)
          await onRejected?.(asked.shop.accessToken).catch(() => {});
        throw error;
      }
    },
  };
}

/** Notes whether a mutation may have reached Shopify. Queries have no effect. */
function watch(client: ShopifyClient) {
  let mutated = false;
  const watched: ShopifyClient = {
    close: client.close,
    async run(asked) {
      const isMutation = asked.operation.text.trimStart().startsWith('mutation');
      try {
        const data = await client.run(asked);
        mutated ||= isMutation;
        return data;
      } catch (error) {
        mutated ||= isMutation && !isUnsent(error);
        throw error;
      }
    },
  };
  return { client: watched, hasMutated: () => mutated };
}

/** Converts the failure of a request that only read. It cannot have made anything. */
function unsent(error: unknown): unknown {
  if (!(error instanceof CommerceFailure) || error.kind === 'final') return error;
  const { kind, message, cause, retryAfterMs } = error;
  return new CommerceFailure(kind, message, { cause, retryAfterMs, isUnsent: true });
}

/**
 * Checks the store of a sandbox shop. @throws CommerceFailure `final` for other stores, because a sandbox must not move
 * money.
 */
async function requireDevelopmentStore(
  client: ShopifyClient,
  shop: ShopifyShop,
  signal: AbortSignal,
): Promise<void> {
  const asked = { shop, operation: SHOP_PLAN, variables: {}, signal };
  const { plan } = (await client.run(asked)).shop;
  if (plan.partnerDevelopment) return;
  const why = 'the shop is a sandbox here, and no development store at Shopify';
  throw new CommerceFailure('final', `Shopify: ${why}`);
}
