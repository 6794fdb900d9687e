import type { Counter, Meter } from '@opentelemetry/api';
import { isOutage } from '../../platform/postgres/outage.ts';
import { startLoop, type Worker } from '../../platform/process/worker.ts';
import type { Keyring } from '../../platform/security/keyring.ts';
import { CommerceFailure, LedgerUnavailable } from '../provider.ts';
import { createRequestWatch, type RequestWatch } from '../request-watch.ts';
import type { ShopifyAppDeps, Store } from './app.ts';
import { refreshToken } from './token-exchange.ts';
import {
  claimRefresh,
  expireToken,
  loadClaim,
  loadTokens,
  openTokens,
  recordRefreshFailure,
  type StoredTokens,
  staleStores,
  storeRefreshed,
} from './token-store.ts';

/** A token is refreshed this long before its expiry, so that all calls of an effect end in time. Milliseconds. */
const REFRESH_BEFORE_MS = 600_000;
/** A token that expires within this time is not used. Milliseconds. */
const TOO_LATE_MS = 15_000;
/**
 * How long the claim of a refresh lasts. It is longer than a refresh. When the process that claimed it has died,
 * another one refreshes after it has itself seen the claim for this time. The clock of the database alone ends no claim,
 * because two refreshes at once may leave a pair that Shopify does not accept. Also the pause after a failure.
 * Milliseconds.
 */
const CLAIM_MS = 15_000;
/** Pause after a refusal, which only another install ends. Milliseconds. */
const REFUSED_PAUSE_MS = 600_000;
/** When an effect is tried again that waits for the refresh of another process. Milliseconds. */
const RETRY_AFTER_MS = 2_000;
/**
 * Age in days at which unused tokens are refreshed. Without this, the refresh tokens of shops without returns would
 * expire after 90 days.
 */
const STALE_DAYS = 7;
/** How often the job searches for such tokens, and how many it refreshes at a time. */
const KEEP_EVERY_MS = 600_000;
const KEEP_BATCH = 20;

/** The secrets for requests to a store. */
export interface StoreAccess {
  readonly accessToken: string;
  /** The secret from which the codes of gift cards are derived. It stays the same when the token is refreshed. */
  readonly codeSecret: string;
}

/** Reads and refreshes the access tokens of Shopify stores. */
export interface AccessTokens {
  /**
   * Returns a valid token of a store. Before that, refreshes a token that expires soon.
   *
   * @throws CommerceFailure `passing` and unsent, when there is no valid token; LedgerUnavailable.
   */
  of(store: Store): Promise<StoreAccess>;
  /** Notes that Shopify did not accept this token. If possible, it is refreshed before its next use. */
  rejected(store: Store, accessToken: string): Promise<void>;
  /** Refreshes tokens that nobody has used for days. */
  refreshStale(): Promise<void>;
}

type Deps = Pick<ShopifyAppDeps, 'pool' | 'client' | 'app' | 'logger'> & {
  readonly keyring: Keyring;
  readonly meter: Meter;
};

/**
 * Creates the tokens of stores. Of several processes, only one refreshes a token. It stores the new pair in one
 * statement. When it dies before that, another process repeats the refresh. The old refresh token is then still valid
 * at Shopify, because the new one was never used.
 */
export function createAccessTokens(deps: Deps): AccessTokens {
  const { pool, keyring } = deps;
  const counter = deps.meter.createCounter('shopify.token.refreshes', {
    description: 'Refreshes of access tokens of Shopify by result: refreshed, unavailable, refused',
  });
  const claims = createRequestWatch();
  /** The refreshes that run in this process, by shop. */
  const refreshing = new Map<bigint, Promise<void>>();

  const refreshOnce = (store: Store): Promise<void> => {
    const running = refreshing.get(store.shopId);
    if (running !== undefined) return running;
    const started = refresh(deps, { counter, claims, store }).finally(() =>
      refreshing.delete(store.shopId),
    );
    refreshing.set(store.shopId, started);
    return started;
  };

  const load = async (store: Store): Promise<StoredTokens> => {
    const tokens = await loadTokens(pool, store);
    if (tokens) return tokens;
    throw unusable('the app is not installed in the store any more');
  };

  const validTokens = async (store: Store): Promise<StoredTokens> => {
    const first = await load(store);
    if (!isDue(first)) return first;
    // Do not stop at the deadline of an effect, because the answer of Shopify must be stored.
    await refreshOnce(store);
    const next = await load(store);
    if (next.expiresInMs === null || next.expiresInMs > TOO_LATE_MS) return next;
    throw next.isRefused
      ? unusable('it refuses to refresh the access of the app; the merchant must install it again')
      : unusable('the access token has expired, and there is no new one yet', RETRY_AFTER_MS);
  };

  return {
    async of(store) {
      try {
        return openTokens(keyring, store, await validTokens(store));
      } catch (error) {
        if (!isOutage(error)) throw error;
        throw new LedgerUnavailable('the database is unavailable', { cause: error });
      }
    },
    async rejected(store, accessToken) {
      const tokens = await loadTokens(pool, store);
      // Do nothing when the token was refreshed in the meantime.
      if (!tokens || openTokens(keyring, store, tokens).accessToken !== accessToken) return;
      await expireToken(pool, { store, tokens });
    },
    async refreshStale() {
      const stores = await staleStores(pool, { days: STALE_DAYS, limit: KEEP_BATCH });
      for (const store of stores) await refreshOnce(store);
    },
  };
}

function isDue({ expiresInMs }: StoredTokens): boolean {
  return expiresInMs !== null && expiresInMs <= REFRESH_BEFORE_MS;
}

async function refresh(
  deps: Deps,
  o: { readonly counter: Counter; readonly claims: RequestWatch; readonly store: Store },
): Promise<void> {
  const { pool, keyring, app, logger } = deps;
  const { counter, claims, store } = o;
  if (!app) return;
  const after = await loadClaim(pool, store);
  const seen = { shopId: store.shopId, returnId: 0n, kind: 'token' };
  if (after !== null && claims.seenMs({ ...seen, askedAt: after }) < CLAIM_MS) return;
  const times = { forMs: CLAIM_MS, beforeMs: REFRESH_BEFORE_MS };
  const claim = await claimRefresh(pool, keyring, { store, after, ...times });
  if (!claim) return;
  const { shopDomain } = store;
  const next = await refreshToken(deps, { app, shopDomain, refreshToken: claim.refreshToken });
  if (!('failure' in next)) {
    await storeRefreshed(pool, keyring, { store, claim, next });
    counter.add(1, { result: 'refreshed' });
    return;
  }
  const { failure } = next;
  counter.add(1, { result: failure });
  const isRefused = failure === 'refused';
  if (isRefused) {
    const fields = { shop: String(store.shopId), store: shopDomain };
    logger.error(fields, 'shopify: access refused; the merchant must install the app again');
  }
  const pauseMs = isRefused ? REFUSED_PAUSE_MS : CLAIM_MS;
  await recordRefreshFailure(pool, { store, claim, pauseMs, isRefused });
}

/** The failure for a store without a usable token. Nothing was sent. */
function unusable(why: string, retryAfterMs?: number): CommerceFailure {
  return new CommerceFailure('passing', `Shopify: ${why}`, { isUnsent: true, retryAfterMs });
}

/** Starts the job that refreshes the tokens of stores without returns. */
export function startTokenRefresh(o: {
  readonly tokens: Pick<AccessTokens, 'refreshStale'>;
  readonly logger: Deps['logger'];
}): Worker {
  return startLoop({
    name: 'shopify: token refresh',
    idleMs: KEEP_EVERY_MS,
    logger: o.logger,
    step: async () => {
      await o.tokens.refreshStale();
      return 'idle';
    },
  });
}
