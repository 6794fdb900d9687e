import {
  type CompleteShopifyInstallRequest,
  ShopifyInstallProblem as Problem,
} from '../../../../proto/gen/rms/commerce/v1/commerce_pb.ts';
import { inTransaction, type Queryable } from '../../../platform/postgres.ts';
import { requireKeyring } from '../connection-store.ts';
import { unknownOutcomes } from '../known-outcomes.ts';
import type { ShopifyAppDeps, Store } from './app.ts';
import { hashOfSecret } from './link-secret.ts';
import { parseQuery } from './query.ts';
import { missingScopes } from './scopes.ts';
import { isSignedQuery } from './signature.ts';
import { connectedStore, connectStore, isStoreOfOther } from './stores.ts';
import { exchangeCode, type Grant } from './token-exchange.ts';

export interface InstallResult {
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
