import { randomBytes } from 'node:crypto';
import type { Queryable } from '../../platform/postgres/postgres.ts';
import type { Keyring } from '../../platform/security/keyring.ts';
import type { Store } from './app.ts';
import type { Grant, Refresh } from './token-exchange.ts';

// Stores the tokens of stores at Shopify, encrypted. An access token that expires has a refresh token.

/**
 * Contexts of the encryption. A token can be decrypted only for its shop, its Shopify store and its use, so a copy in
 * another row or column is useless. The secret for the codes of gift cards is bound only to the shop. So it stays valid
 * when the shop connects another Shopify store.
 */
const CONTEXTS = {
  access: ({ shopId, shopDomain }: Store) => `shopify:${shopId}:${shopDomain}`,
  refresh: ({ shopId, shopDomain }: Store) => `shopify-refresh:${shopId}:${shopDomain}`,
  code: ({ shopId }: Store) => `shopify-code:${shopId}`,
} as const;

const CODE_SECRET_BYTES = 32;

interface Sealed {
  readonly keyId: string;
  readonly sealed: Uint8Array;
}

/** The tokens of a store, in the form in which they are stored. */
export interface StoredTokens {
  readonly access: Sealed;
  /** The secret for the codes of gift cards. */
  readonly code: Sealed;
  /**
   * Time until the access token expires; negative when it has expired. Null for a token that does not expire.
   * Milliseconds.
   */
  readonly expiresInMs: number | null;
  readonly isRefused: boolean;
}

interface Row {
  readonly keyId: string;
  readonly sealed: Buffer;
  readonly codeKeyId: string;
  readonly codeSealed: Buffer;
  readonly expiresInMs: number | null;
  readonly isRefused: boolean;
}

/** Reads the tokens of a store. Undefined when the store gave none, or when its merchant removed the app. */
export async function loadTokens(
  db: Queryable,
  { shopId, shopDomain }: Store,
): Promise<StoredTokens | undefined> {
  const { rows } = await db.query<Row>({
    name: 'shopify-tokens',
    text: `select t.key_id as "keyId", t.sealed, c.code_key_id as "codeKeyId", c.code_sealed as "codeSealed",
                  extract(epoch from t.expires_at - now())::float8 * 1000 as "expiresInMs",
                  t.refused_at is not null as "isRefused"
             from shopify_tokens t join commerce_connections c using (shop_id)
            where t.shop_id = $1 and c.shop_domain = $2`,
    values: [shopId, shopDomain],
  });
  const [row] = rows;
  if (!row) return undefined;
  const { keyId, sealed, codeKeyId, codeSealed, ...rest } = row;
  return { ...rest, access: { keyId, sealed }, code: { keyId: codeKeyId, sealed: codeSealed } };
}

/** Decrypts the access token, and the secret for the codes of gift cards. @throws when the keyring lacks the key. */
export function openTokens(keyring: Keyring, store: Store, { access, code }: StoredTokens) {
  return {
    accessToken: open(keyring, 'access', store, access),
    codeSecret: open(keyring, 'code', store, code),
  };
}

/**
 * Returns the secret for the codes of a shop's gift cards, encrypted with the newest key: the stored one, so that gift
 * cards keep their codes, or else a new one. It stays when the merchant removes the app.
 *
 * @throws when the keyring lacks the key of the stored one.
 */
export async function codeSecretOf(db: Queryable, keyring: Keyring, store: Store): Promise<Sealed> {
  const { rows } = await db.query<Sealed>(
    `select code_key_id as "keyId", code_sealed as sealed
       from commerce_connections where shop_id = $1 and code_sealed is not null`,
    [store.shopId],
  );
  const secret = rows[0]
    ? open(keyring, 'code', store, rows[0])
    : randomBytes(CODE_SECRET_BYTES).toString('base64');
  return seal(keyring, 'code', store, secret);
}

/** Stores the tokens of an install. */
export async function storeGrant(
  tx: Queryable,
  keyring: Keyring,
  { store, grant }: { readonly store: Store; readonly grant: Grant },
): Promise<void> {
  const access = seal(keyring, 'access', store, grant.accessToken);
  const refresh = grant.refresh && seal(keyring, 'refresh', store, grant.refresh.refreshToken);
  await tx.query(
    `insert into shopify_tokens
       (shop_id, key_id, sealed, expires_at, refresh_key_id, refresh_sealed)
     values ($1, $2, $3, now() + $4::float8 * interval '1 second', $5, $6)
     on conflict (shop_id) do update
       set key_id = excluded.key_id, sealed = excluded.sealed, created_at = now(),
           expires_at = excluded.expires_at, refresh_key_id = excluded.refresh_key_id,
           refresh_sealed = excluded.refresh_sealed, refreshed_at = now(), refreshing_until = null,
           refused_at = null`,
    [
      ...[store.shopId, access.keyId, access.sealed, grant.refresh?.expiresInS ?? null],
      ...[refresh?.keyId ?? null, refresh?.sealed ?? null],
    ],
  );
}

/** The right of one process to refresh the token of a store. */
export interface RefreshClaim {
  readonly refreshToken: string;
  /** The stored form of the refresh token. It identifies the pair of tokens. */
  readonly sealed: Uint8Array;
}

/**
 * SQL condition: by the clock of the database, no claim holds, and no pause after a failure. A time that is further away
 * than the longest pause says that the clock was set back.
 */
const IS_FREE = `(t.refreshing_until is null or t.refreshing_until <= now()
  or t.refreshing_until > now() + interval '15 minutes')`;

/** Reads until when a store's token is claimed, or a pause after a failure lasts, as text. Null when neither is so. */
export async function loadClaim(db: Queryable, { shopId }: Store): Promise<string | null> {
  const { rows } = await db.query<{ until: string | null }>(
    'select refreshing_until::text as until from shopify_tokens where shop_id = $1',
    [shopId],
  );
  return rows[0]?.until ?? null;
}

/**
 * Claims the refresh of a store's token for some time. Undefined in these cases: another process has the claim or has
 * refreshed the token, it is too early after a failure, or the token does not expire.
 *
 * @param o.beforeMs how long before its expiry a token is refreshed.
 * @param o.after the claim that has ended, see {@link loadClaim}.
 */
export async function claimRefresh(
  db: Queryable,
  keyring: Keyring,
  o: {
    readonly store: Store;
    readonly forMs: number;
    readonly beforeMs: number;
    readonly after: string | null;
  },
): Promise<RefreshClaim | undefined> {
  const { rows } = await db.query<{ keyId: string; sealed: Buffer }>(
    `update shopify_tokens t set refreshing_until = now() + $2::float8 * interval '1 millisecond'
      where shop_id = $1 and expires_at <= now() + $3::float8 * interval '1 millisecond'
        and refreshing_until is not distinct from $4::timestamptz and ${IS_FREE}
     returning refresh_key_id as "keyId", refresh_sealed as sealed`,
    [o.store.shopId, o.forMs, o.beforeMs, o.after],
  );
  const [row] = rows;
  if (!row) return undefined;
  return { refreshToken: open(keyring, 'refresh', o.store, row), sealed: row.sealed };
}

/**
 * Replaces the claimed pair by a new one. Stores nothing when the app was installed again or removed in the meantime.
 */
export async function storeRefreshed(
  db: Queryable,
  keyring: Keyring,
  o: {
    readonly store: Store;
    readonly claim: RefreshClaim;
    readonly next: { readonly accessToken: string } & Refresh;
  },
): Promise<void> {
  const { store, claim, next } = o;
  const access = seal(keyring, 'access', store, next.accessToken);
  const refresh = seal(keyring, 'refresh', store, next.refreshToken);
  // Keep created_at, the time of the install. A late webhook about an earlier removal is compared with it.
  await db.query(
    `update shopify_tokens
        set key_id = $3, sealed = $4, expires_at = now() + $5::float8 * interval '1 second',
            refresh_key_id = $6, refresh_sealed = $7, refreshed_at = now(), refreshing_until = null,
            refused_at = null
      where shop_id = $1 and refresh_sealed = $2`,
    [
      store.shopId,
      claim.sealed,
      access.keyId,
      access.sealed,
      next.expiresInS,
      refresh.keyId,
      refresh.sealed,
    ],
  );
}

/** Records a failed refresh, so that no process asks Shopify again for some time. */
export async function recordRefreshFailure(
  db: Queryable,
  o: {
    readonly store: Store;
    readonly claim: RefreshClaim;
    readonly pauseMs: number;
    readonly isRefused: boolean;
  },
): Promise<void> {
  await db.query(
    `update shopify_tokens
        set refreshing_until = now() + $3::float8 * interval '1 millisecond',
            refused_at = case when $4 then coalesce(refused_at, now()) else refused_at end
      where shop_id = $1 and refresh_sealed = $2`,
    [o.store.shopId, o.claim.sealed, o.pauseMs, o.isRefused],
  );
}

/** Records that an access token is no longer valid, if it can be refreshed. */
export async function expireToken(
  db: Queryable,
  { store, tokens }: { readonly store: Store; readonly tokens: StoredTokens },
): Promise<void> {
  await db.query(
    `update shopify_tokens set expires_at = least(expires_at, now())
      where shop_id = $1 and sealed = $2 and refresh_sealed is not null`,
    [store.shopId, tokens.access.sealed],
  );
}

/** Returns stores whose tokens were not refreshed for some days. Their refresh tokens would expire. */
export async function staleStores(
  db: Queryable,
  o: { readonly days: number; readonly limit: number },
): Promise<Store[]> {
  const { rows } = await db.query<Store>(
    `select t.shop_id as "shopId", c.shop_domain as "shopDomain"
       from shopify_tokens t join commerce_connections c using (shop_id)
      where t.refresh_sealed is not null and t.refreshed_at < now() - make_interval(days => $1)
        and t.refused_at is null and ${IS_FREE}
        and c.shop_domain is not null
      order by t.refreshed_at limit $2`,
    [o.days, o.limit],
  );
  return rows;
}

type Use = keyof typeof CONTEXTS;

function seal(keyring: Keyring, use: Use, store: Store, secret: string): Sealed {
  const { keyId, encrypted } = keyring.encrypt(secret, CONTEXTS[use](store));
  return { keyId, sealed: encrypted };
}

function open(keyring: Keyring, use: Use, store: Store, { keyId, sealed }: Sealed): string {
  return keyring.decrypt(keyId, sealed, CONTEXTS[use](store));
}
