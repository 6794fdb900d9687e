import { createHash, randomBytes } from 'node:crypto';
import { z } from 'zod';
import {
  type BeginShopifyInstallRequest,
  type CompleteShopifyInstallRequest,
  type CreateShopifyInstallLinkRequest,
  ShopifyInstallProblem as Problem,
} from '../../../proto/gen/rms/commerce/v1/commerce_pb.ts';
import { type Actor, Actor_Kind } from '../../../proto/gen/rms/common/v1/actor_pb.ts';
import { inTransaction, type Queryable } from '../../platform/postgres/postgres.ts';
import type { Keyring } from '../../platform/security/keyring.ts';
import { invalidField, stateForbids } from '../../platform/values/errors.ts';
import { callerShape, parseInput } from '../../platform/values/input.ts';
import type { ConnectionDeps } from '../connections.ts';
import { requireKeyring } from '../connections.ts';
import { isShopDomain } from '../shopify/answers.ts';
import { requireKnownOutcomes, unknownOutcomes } from '../unknown-outcomes.ts';
import {
  isSignedQuery,
  missingScopes,
  NEEDED_SCOPES,
  type ShopifyAppDeps,
  type Store,
} from './app.ts';
import { exchangeCode, type Grant } from './token-exchange.ts';
import { codeSecretOf, storeGrant } from './token-store.ts';

/** Returns a new secret of 43 characters for a link, a state or a cookie. The database has only its hash. */
function newLinkSecret(): string {
  return randomBytes(32).toString('base64url');
}

/** Returns the stored form of a secret. A slow hash is not needed, because a secret has 256 random bits. */
function hashOfSecret(secret: string): Buffer {
  return createHash('sha256').update(secret).digest();
}

/** Maximum length of the query of an install. Characters. */
const QUERY_MAX = 4_096;

/**
 * Returns the parameters of a query that a browser sent. Undefined when the query is too long, or has a name more than
 * once. In the second case it would not be clear what was signed.
 */
function parseQuery(query: string): URLSearchParams | undefined {
  if (query.length > QUERY_MAX) return undefined;
  const params = new URLSearchParams(query);
  const names = [...params.keys()];
  return new Set(names).size === names.length ? params : undefined;
}

/** Merchants read it in the portal. */
const NO_APP =
  'the operator of this service has not set up the app for Shopify (SHOPIFY_CLIENT_ID of the returns service)';

/** How long an install link is valid. Minutes. */
const LINK_MINUTES = 15;

const linkInput = z.object({
  ...callerShape,
  shopDomain: z.string().refine(isShopDomain, 'must be <name>.myshopify.com, in lower case'),
});

/**
 * Makes the link with which a merchant connects a shop to its store. It replaces an earlier link of the shop.
 *
 * @throws DomainError INVALID_ARGUMENT for a domain that is none of Shopify; SHOP_NOT_CONFIGURED; STATE_FORBIDS without
 *   app or keyring, for the store of another shop, and while an effect of another provider has an unknown outcome.
 */
export async function createInstallLink(
  deps: ShopifyAppDeps & Pick<ConnectionDeps, 'loadSettings'>,
  request: CreateShopifyInstallLinkRequest,
): Promise<{ readonly link: string; readonly expiresAt: Date }> {
  const { shopId, shopDomain, actor } = parseInput(linkInput, request);
  if (!deps.app) throw stateForbids(NO_APP);
  requireKeyring(deps);
  return inTransaction(deps.pool, async (tx) => {
    await deps.loadSettings(tx, shopId);
    if (await isStoreOfOther(tx, { shopId, shopDomain })) {
      throw stateForbids(`${shopDomain} is connected to another shop`);
    }
    if ((await connectedStore(tx, shopId)) !== shopDomain) await requireKnownOutcomes(tx, shopId);
    const link = newLinkSecret();
    return { link, expiresAt: await storeLink(tx, { shopId, shopDomain, link, actor }) };
  });
}

async function storeLink(
  tx: Queryable,
  o: {
    readonly shopId: bigint;
    readonly shopDomain: string;
    readonly link: string;
    readonly actor: Actor;
  },
): Promise<Date> {
  const { rows } = await tx.query<{ expiresAt: Date }>(
    `insert into shopify_installs (shop_id, shop_domain, link_hash, expires_at, user_id)
     values ($1, $2, $3, now() + make_interval(mins => $4), $5)
     on conflict (shop_id) do update
       set shop_domain = excluded.shop_domain, link_hash = excluded.link_hash, expires_at = excluded.expires_at,
           user_id = excluded.user_id, state_hash = null, browser_hash = null, used_at = null, connected_at = null
     returning expires_at as "expiresAt"`,
    [o.shopId, o.shopDomain, hashOfSecret(o.link), LINK_MINUTES, userOf(o.actor)],
  );
  if (!rows[0]) throw new Error('an install link was not stored');
  return rows[0].expiresAt;
}

/** The user who acts; null for any other actor. */
function userOf({ kind, id }: Actor): string | null {
  return kind === Actor_Kind.USER ? id : null;
}

/**
 * Opens an install link: makes the state of a new attempt, and returns the address at Shopify where the browser
 * continues. The link stays valid, because a browser or a preview may open it twice. An earlier attempt with the link
 * ends.
 *
 * @throws DomainError INVALID_ARGUMENT for a redirect that is not an address.
 */
export async function beginInstall(
  { app, pool }: ShopifyAppDeps,
  { query, redirectUrl, userId }: BeginShopifyInstallRequest,
): Promise<
  { readonly problem: Problem } | { readonly authorizeUrl: string; readonly browser: string }
> {
  if (!app) return { problem: Problem.NOT_CONFIGURED };
  if (!URL.canParse(redirectUrl)) throw invalidField('redirect_url', 'must be an address');
  const link = parseQuery(query)?.get('link') ?? '';
  const attempt = { link, state: newLinkSecret(), browser: newLinkSecret() };
  if (await isOfOtherUser(pool, { link, userId })) return { problem: Problem.OTHER_USER };
  const shopDomain = await storeAttempt(pool, attempt);
  if (shopDomain === undefined) return { problem: Problem.LINK };
  // Without `grant_options[]=per-user`, Shopify issues an offline token.
  const params = new URLSearchParams({
    client_id: app.clientId,
    scope: [...NEEDED_SCOPES, ...app.extraScopes].join(','),
    redirect_uri: redirectUrl,
    state: attempt.state,
  });
  const authorizeUrl = `https://${shopDomain}/admin/oauth/authorize?${params}`;
  return { authorizeUrl, browser: attempt.browser };
}

/** Whether another user made the link. */
async function isOfOtherUser(
  db: Queryable,
  o: { readonly link: string; readonly userId: string },
): Promise<boolean> {
  const { rowCount } = await db.query(
    'select from shopify_installs where link_hash = $1 and user_id <> $2',
    [hashOfSecret(o.link), o.userId],
  );
  return rowCount === 1;
}

/** Stores the attempt. Returns the domain of the link's store; undefined when the link is not valid. */
async function storeAttempt(
  db: Queryable,
  o: { readonly link: string; readonly state: string; readonly browser: string },
): Promise<string | undefined> {
  const { rows } = await db.query<{ shopDomain: string }>(
    `update shopify_installs set state_hash = $2, browser_hash = $3, used_at = null
      where link_hash = $1 and expires_at > now() and connected_at is null
     returning shop_domain as "shopDomain"`,
    [hashOfSecret(o.link), hashOfSecret(o.state), hashOfSecret(o.browser)],
  );
  return rows[0]?.shopDomain;
}

interface InstallResult {
  readonly problem?: Problem;
  readonly missingScopes?: string[];
  readonly shopDomain?: string;
  /** The shop that is now connected. */
  readonly connectedShopId?: bigint;
}

/**
 * Completes an install with the query that Shopify sent back with the browser.
 *
 * A state is used once, before its code is exchanged. So of several concurrent calls, only one connects the shop. After
 * a failure, the merchant must open the link again. After success, the same browser gets the same answer again.
 *
 * @throws DomainError STATE_FORBIDS without a keyring.
 */
export async function completeInstall(
  deps: ShopifyAppDeps,
  request: CompleteShopifyInstallRequest,
): Promise<InstallResult> {
  const { app, pool } = deps;
  if (!app) return { problem: Problem.NOT_CONFIGURED };
  const query = parseQuery(request.query);
  // Shopify may not sign an error. This is safe, because an error changes nothing.
  if (query?.has('error')) return { problem: Problem.DENIED };
  if (!query || !isSignedQuery(query, app.clientSecret)) return { problem: Problem.SIGNATURE };
  const attempt = {
    stateHash: hashOfSecret(query.get('state') ?? ''),
    browserHash: hashOfSecret(request.browser),
  };
  const found = await findAttempt(pool, attempt);
  if (!found) return { problem: Problem.STATE };
  const { shopDomain } = found;
  if (query.get('shop') !== shopDomain) return { problem: Problem.DOMAIN, shopDomain };
  if (found.isConnected) return { connectedShopId: found.shopId, shopDomain };
  if (!(await consumeState(pool, attempt))) return { problem: Problem.STATE };
  const grant = await exchangeCode(deps, { app, shopDomain, code: query.get('code') ?? '' });
  if (!grant) return { problem: Problem.EXCHANGE, shopDomain };
  const missing = missingScopes(grant.scopes);
  if (missing.length > 0) {
    return { problem: Problem.SCOPES, missingScopes: [...missing], shopDomain };
  }
  const problem = await connect(deps, found, { ...attempt, grant });
  return problem === undefined
    ? { connectedShopId: found.shopId, shopDomain }
    : { problem, shopDomain };
}

/** Finds an attempt by the secrets that the browser sent. */
interface Attempt {
  readonly stateHash: Buffer;
  readonly browserHash: Buffer;
}

async function findAttempt(
  db: Queryable,
  { stateHash, browserHash }: Attempt,
): Promise<(Store & { readonly isConnected: boolean }) | undefined> {
  const { rows } = await db.query<Store & { isConnected: boolean }>(
    `select shop_id as "shopId", shop_domain as "shopDomain", connected_at is not null as "isConnected"
       from shopify_installs
      where state_hash = $1 and browser_hash = $2 and expires_at > now()
        and (used_at is null or connected_at is not null)`,
    [stateHash, browserHash],
  );
  return rows[0];
}

/** Uses a state. Returns whether this call is the one that used it. */
async function consumeState(db: Queryable, { stateHash, browserHash }: Attempt): Promise<boolean> {
  const { rowCount } = await db.query(
    `update shopify_installs set used_at = now()
      where state_hash = $1 and browser_hash = $2 and used_at is null and expires_at > now()`,
    [stateHash, browserHash],
  );
  return rowCount === 1;
}

/** Stores the connection, and that the link was used. When it cannot, returns why. */
function connect(
  deps: ShopifyAppDeps,
  store: Store,
  o: Pick<Attempt, 'stateHash'> & { readonly grant: Grant },
): Promise<Problem | undefined> {
  const keyring = requireKeyring(deps);
  return inTransaction(deps.pool, async (tx) => {
    // While the code was exchanged for a token, a newer link or attempt may have replaced this one, perhaps for another
    // store.
    const { rowCount } = await tx.query(
      'select from shopify_installs where shop_id = $1 and state_hash = $2 for update',
      [store.shopId, o.stateHash],
    );
    if (rowCount !== 1) return Problem.STATE;
    if (await isStoreOfOther(tx, store)) return Problem.DOMAIN_TAKEN;
    const isChange = (await connectedStore(tx, store.shopId)) !== store.shopDomain;
    if (isChange && (await unknownOutcomes(tx, store.shopId)) > 0) return Problem.UNKNOWN_OUTCOMES;
    await connectStore(tx, store, { ...o.grant, keyring });
    await tx.query('update shopify_installs set connected_at = now() where shop_id = $1', [
      store.shopId,
    ]);
    return undefined;
  });
}

/**
 * Returns the domain of the store to which a shop is connected, with or without a token; undefined when it is connected
 * to none.
 */
async function connectedStore(db: Queryable, shopId: bigint): Promise<string | undefined> {
  const { rows } = await db.query<{ shopDomain: string | null }>(
    'select shop_domain as "shopDomain" from commerce_connections where shop_id = $1 for update',
    [shopId],
  );
  return rows[0]?.shopDomain ?? undefined;
}

/** Whether a store is connected to another shop. */
async function isStoreOfOther(db: Queryable, { shopId, shopDomain }: Store): Promise<boolean> {
  const { rowCount } = await db.query(
    'select from commerce_connections where shop_domain = $1 and shop_id <> $2',
    [shopDomain, shopId],
  );
  return rowCount !== 0;
}

/**
 * Connects a shop to its store. The store replaces another provider. @throws when the store belongs to another shop.
 */
async function connectStore(
  tx: Queryable,
  { shopId, shopDomain }: Store,
  o: Grant & { readonly keyring: Keyring },
): Promise<void> {
  const store = { shopId, shopDomain };
  const code = await codeSecretOf(tx, o.keyring, store);
  await tx.query(
    `insert into commerce_connections (shop_id, adapter, shop_domain, scopes, code_key_id, code_sealed)
     values ($1, 'shopify', $2, $3, $4, $5)
     on conflict (shop_id) do update
       set adapter = 'shopify', url = null, shop_domain = excluded.shop_domain, scopes = excluded.scopes,
           uninstalled_at = null, code_key_id = excluded.code_key_id, code_sealed = excluded.code_sealed,
           updated_at = now(),
           connected_at = case when commerce_connections.shop_domain = excluded.shop_domain
                               then commerce_connections.connected_at else now() end`,
    [shopId, shopDomain, o.scopes.join(','), code.keyId, code.sealed],
  );
  await tx.query('delete from commerce_secrets where shop_id = $1', [shopId]);
  await storeGrant(tx, o.keyring, { store, grant: o });
}
