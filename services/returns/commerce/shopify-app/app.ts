import type pg from 'pg';
import type { Keyring } from '../../../platform/keyring.ts';
import type { Logger } from '../../../platform/log.ts';
import type { CommerceClient } from '../http/client.ts';

/** The app that merchants install in their stores. Its values are in the Dev Dashboard of Shopify. */
export interface ShopifyApp {
  readonly clientId: string;
  /** The secret with which Shopify signs what it sends. It is also needed to exchange codes for tokens. */
  readonly clientSecret: string;
  /** Additional scopes that installs ask for. A store may be connected without them. */
  readonly extraScopes: readonly string[];
}

/** A shop, and its store at Shopify. */
export interface Store {
  readonly shopId: bigint;
  /** Domain of the store, such as `example.myshopify.com`. */
  readonly shopDomain: string;
}

export interface ShopifyAppDeps {
  readonly pool: pg.Pool;
  readonly logger: Logger;
  readonly client: CommerceClient;
  /** Undefined when SHOPIFY_CLIENT_ID is not set. */
  readonly app: ShopifyApp | undefined;
  /** Encrypts tokens; undefined when COMMERCE_KEYRING is not set. */
  readonly keyring: Keyring | undefined;
}
