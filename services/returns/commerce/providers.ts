import type { Counter, Meter } from '@opentelemetry/api';
import type { Keyring } from '../../platform/keyring.ts';
import type { Logger } from '../../platform/log.ts';
import { createSigningKeys, type SigningKeys } from '../../platform/outbound/signing-keys.ts';
import type { Queryable } from '../../platform/postgres.ts';
import { COMMERCE_SECRETS } from './connection-store.ts';
import { createHttpCommerce } from './http/adapter.ts';
import type { CommerceClient } from './http/client.ts';
import type { CommerceProvider } from './provider.ts';
import { resilient } from './resilient.ts';
import { createShopifyCommerce } from './shopify/adapter.ts';
import type { ShopifyClient } from './shopify/client.ts';
import type { AccessTokens } from './shopify-app/access-tokens.ts';

/** Chooses the commerce provider of a shop. */
export interface Providers {
  /**
   * The provider of the return's shop; undefined when it has none. Then it counts and logs the return, unless the caller
   * only checks.
   */
  of(
    db: Queryable,
    about: { readonly shopId: bigint; readonly returnId: bigint; readonly isCheck?: boolean },
  ): Promise<CommerceProvider | undefined>;
  /** The provider of a shop that is connected, and since when; undefined when it is not. */
  connected(db: Queryable, shopId: bigint): Promise<ConnectedProvider | undefined>;
}

/** Providers with open connections. */
export interface OpenProviders extends Providers {
  close(): Promise<void>;
}

export interface ConnectedProvider {
  readonly commerce: CommerceProvider;
  readonly since: Date;
}

export interface ProvidersOptions {
  readonly embedded: CommerceProvider;
  /** Whether shops without a connection may use the embedded provider although they are live. Never in production. */
  readonly embeddedForLive: boolean;
  /** Opens the HTTP client of one connection. Shops share no connections, also at one host. */
  readonly openClient: () => CommerceClient;
  readonly openShopifyClient: () => ShopifyClient;
  /** Undefined when COMMERCE_KEYRING is not set. */
  readonly accessTokens: Pick<AccessTokens, 'of' | 'rejected'> | undefined;
  /** Decrypts the secrets of connections; undefined when COMMERCE_KEYRING is not set. */
  readonly keyring: Keyring | undefined;
  readonly logger: Logger;
  readonly meter: Meter;
}

/** Maximum number of providers in memory. The oldest is removed first, with its circuit breaker. */
const MAX_PROVIDERS = 1_000;
/** Longer than a call. Milliseconds. */
const CLOSE_AFTER_MS = 30_000;
/** An effect at Shopify takes several requests. Below the limit that processing sets. Milliseconds. */
const SHOPIFY_CALL_MS = 11_000;

/**
 * The provider of a shop is its connection. Without one it is the embedded provider, in production only for sandbox
 * shops, because it moves no money. Each connection has its own limits and circuit breaker, so that a failing endpoint
 * stops only its own shop.
 */
export function createProviders(o: ProvidersOptions): OpenProviders {
  const embedded = resilient(o.embedded);
  const refused: Counter = o.meter.createCounter('processing.refused', {
    description: 'Returns not processed because their shop has no commerce provider.',
  });
  const signingKeys = o.keyring && createSigningKeys(o.keyring);
  const connected = new Map<string, OpenProvider>();

  const providerOf = (found: Found, shopId: bigint): CommerceProvider | undefined => {
    if (found.since === null) return o.embeddedForLive || found.sandbox ? embedded : undefined;
    const { url, secrets, shopDomain, isInstalled } = found;
    if (shopDomain !== null && !isInstalled) return undefined;
    const name = [shopId, found.sandbox, url ?? shopDomain, secrets].join(' ');
    const known = connected.get(name);
    if (known) return known.commerce;
    const opened = open({ ...found, shopId });
    if (!opened) return undefined;
    const [oldest] = connected;
    if (connected.size >= MAX_PROVIDERS && oldest) {
      connected.delete(oldest[0]);
      // Requests in flight have a deadline, and must not be cut off.
      setTimeout(() => void oldest[1].client.close(), CLOSE_AFTER_MS).unref();
    }
    connected.set(name, opened);
    return opened.commerce;
  };

  /** Undefined when the service cannot decrypt what it needs, or the merchant has removed the Shopify app. */
  const open = (found: ShopFound): OpenProvider | undefined => {
    const { url, secrets, shopDomain, shopId, sandbox } = found;
    if (signingKeys && url !== null && secrets !== null) {
      const client = o.openClient();
      const http = httpProvider(client, signingKeys, { ...found, url, secrets });
      return { client, commerce: resilient(http) };
    }
    const { accessTokens } = o;
    if (accessTokens && shopDomain !== null) {
      const client = o.openShopifyClient();
      const store = { shopId, shopDomain };
      const shopify = createShopifyCommerce({
        client,
        shopDomain,
        sandbox,
        access: () => accessTokens.of(store),
        onRejected: (accessToken) => accessTokens.rejected(store, accessToken),
      });
      return { client, commerce: resilient(shopify, { timeoutMs: SHOPIFY_CALL_MS }) };
    }
    return undefined;
  };

  return {
    async close() {
      await Promise.all([...connected.values()].map(({ client }) => client.close()));
    },
    async connected(db, shopId) {
      const found = await find(db, shopId);
      if (!found?.since) return undefined;
      const commerce = providerOf(found, shopId);
      return commerce && { commerce, since: found.since };
    },
    async of(db, { shopId, returnId, isCheck = false }) {
      const found = await find(db, shopId);
      const provider = found && providerOf(found, shopId);
      if (provider || isCheck) return provider;
      refused.add(1, { reason: 'no_commerce_provider' });
      const fields = { shop: String(shopId), return: String(returnId) };
      o.logger.error(fields, 'return not processed: the shop has no commerce provider');
      return undefined;
    },
  };
}

async function find(db: Queryable, shopId: bigint): Promise<Found | undefined> {
  const statement = { name: 'commerce-provider', text: FIND, values: [shopId] };
  return (await db.query<Found>(statement)).rows[0];
}

interface Found {
  readonly sandbox: boolean;
  /** Null for a shop without a connection. */
  readonly since: Date | null;
  /** The address of an endpoint; null for another provider. */
  readonly url: string | null;
  /** The valid signing secrets, encrypted as stored, newest first. See `SigningKeys`. */
  readonly secrets: string | null;
  /** The domain of a store at Shopify; null for another provider. */
  readonly shopDomain: string | null;
  /** Whether the store has given a token; false when the app was removed. */
  readonly isInstalled: boolean;
}

type ShopFound = Found & { readonly shopId: bigint };

interface OpenProvider {
  readonly commerce: CommerceProvider;
  readonly client: Pick<CommerceClient, 'close'>;
}

const FIND = `
select s.sandbox, c.url, c.shop_domain as "shopDomain", c.connected_at as since,
       (select string_agg(x.key_id || ':' || encode(x.sealed, 'hex'), ',' order by x.id desc)
          from commerce_secrets x
         where x.shop_id = c.shop_id and (x.expires_at is null or x.expires_at > now())) as secrets,
       exists (select from shopify_tokens t where t.shop_id = c.shop_id) as "isInstalled"
  from settings s left join commerce_connections c on c.shop_id = s.shop_id
 where s.shop_id = $1`;

function httpProvider(
  client: CommerceClient,
  signingKeys: SigningKeys,
  o: Pick<ShopFound, 'shopId' | 'sandbox'> & { readonly url: string; readonly secrets: string },
): CommerceProvider {
  const { shopId, url, secrets, sandbox } = o;
  const keys = signingKeys(COMMERCE_SECRETS.contextOf({ shopId }), secrets);
  return createHttpCommerce({ client, url, keys, sandbox });
}
