import { z } from 'zod';
import {
  CommerceFailure,
  type CommerceProvider,
  type Effect,
  type EffectKind,
  type EffectRequest,
  isUnsent,
} from '../provider.ts';
import {
  operation,
  type ShopifyClient,
  type ShopifyShop,
  type StoreSession,
  Unauthorized,
} from './client.ts';
import {
  cancelOrder,
  createExchangeOrder,
  findCancelledOrder,
  findExchangeOrder,
} from './exchange-order.ts';
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

export const SHOP_PLAN = operation(
  'query ShopPlan { shop { plan { partnerDevelopment } } }',
  z.object({
    shop: z.object({ plan: z.object({ partnerDevelopment: z.boolean() }) }),
  }),
);

type Act<T> = (store: StoreSession, request: EffectRequest) => Promise<T>;

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
  return {
    settledAfterMs: SETTLED_AFTER_MS,
    repeatableForMs: { restock: KEY_KEPT_MS },
    async create(request, signal) {
      let mayHaveMutated = false;
      try {
        const store = await openSession(o, signal);
        if (o.sandbox) await requireDevelopmentStore(store);
        return await CREATE[request.kind](
          {
            ...store,
            async run(asked, variables) {
              // Queries have no effect.
              const isMutation = asked.text.trimStart().startsWith('mutation');
              try {
                const data = await store.run(asked, variables);
                mayHaveMutated ||= isMutation;
                return data;
              } catch (error) {
                mayHaveMutated ||= isMutation && !isUnsent(error);
                throw error;
              }
            },
          },
          request,
        );
      } catch (error) {
        throw mayHaveMutated ? error : unsent(error);
      }
    },
    find: async (request, signal) => FIND[request.kind](await openSession(o, signal), request),
    lookUp: async (order, signal) => findOrder(await openSession(o, signal), order),
    // Shopify cannot list refunds of a period.
    list: async () => undefined,
  };
}

/** Opens a session with the current token. Calls `onRejected` when Shopify does not accept it. */
async function openSession(o: ShopifyCommerceOptions, signal: AbortSignal): Promise<StoreSession> {
  const shop = { shopDomain: o.shopDomain, ...(await o.access()) };
  return {
    codeSecret: shop.codeSecret,
    signal,
    async run(asked, variables) {
      try {
        return await o.client.run({ shop, operation: asked, variables, signal });
      } catch (error) {
        // Ignore a failed report. The next answer causes another one.
        if (error instanceof Unauthorized) await o.onRejected?.(shop.accessToken).catch(() => {});
        throw error;
      }
    },
  };
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
async function requireDevelopmentStore(store: StoreSession): Promise<void> {
  const { plan } = (await store.run(SHOP_PLAN, {})).shop;
  if (plan.partnerDevelopment) return;
  const why = 'the shop is a sandbox here, and no development store at Shopify';
  throw new CommerceFailure('final', `Shopify: ${why}`);
}
