import type pg from 'pg';
import type { Keyring } from '../../../platform/keyring.ts';
import type { Logger } from '../../../platform/log.ts';
import type { CommerceClient } from '../http/client.ts';

/** The app that merchants install in their stores, as the Dev Dashboard of Shopify shows it. */
export interface ShopifyApp {
  readonly clientId: string;
  /** Signs what Shopify sends, and exchanges codes for tokens. */
  readonly clientSecret: string;
  /** Scopes that installs ask for, too. A store is connected also without them. */
  readonly extraScopes: readonly string[];
}

/** A shop, and its store at Shopify. */
export interface Store {
  readonly shopId: bigint;
  /** Such as `example.myshopify.com`. */
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
