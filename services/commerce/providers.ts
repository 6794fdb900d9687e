import type { KeyObject } from 'node:crypto';
import type { Counter, Meter } from '@opentelemetry/api';
import {
  bulkhead,
  circuitBreaker,
  handleWhen,
  type IPolicy,
  isBrokenCircuitError,
  isBulkheadRejectedError,
  SamplingBreaker,
  TimeoutStrategy,
  timeout,
  wrap,
} from 'cockatiel';
import { createSigningKeys, type SigningKeys } from '../platform/outbound/signing-keys.ts';
import type { Queryable } from '../platform/postgres/postgres.ts';
import type { Keyring } from '../platform/security/keyring.ts';
import type { Logger } from '../platform/telemetry/log.ts';
import { COMMERCE_SECRETS } from './connections.ts';
import { CommerceFailure, type CommerceProvider, isFinal, LedgerUnavailable } from './provider.ts';
import type { Store } from './shopify-app/app.ts';

/** Finds the commerce provider of a shop. */
export interface Providers {
  /**
   * Returns the provider of the return's shop; undefined when it has none. In this case it also counts and logs the
   * return, unless the caller only checks.
   */
  of(
    db: Queryable,
    about: { readonly shopId: bigint; readonly returnId: bigint; readonly isCheck?: boolean },
  ): Promise<CommerceProvider | undefined>;
  /** Returns the provider to which a shop is connected, and since when; undefined when the shop is not connected. */
  connected(db: Queryable, shopId: bigint): Promise<ConnectedProvider | undefined>;
  /**
   * Returns the provider for look-ups; undefined when the shop has none, so that nobody can look its orders up.
   *
   * @throws CommerceFailure when the shop is connected and the connection cannot be used now.
   */
  forLookUps(db: Queryable, shopId: bigint): Promise<CommerceProvider | undefined>;
}

/** The endpoint of a shop. */
export interface Endpoint {
  readonly url: string;
  /** The keys that sign requests: the newest first, then earlier ones during their overlap. */
  readonly keys: readonly KeyObject[];
  readonly sandbox: boolean;
}

/** A provider, with the connections that it has open. */
export interface OpenProvider {
  readonly commerce: CommerceProvider;
  readonly close: () => Promise<void>;
}

/** Creates and keeps the providers of shops. */
interface OpenProviders extends Providers {
  close(): Promise<void>;
}

interface ConnectedProvider {
  readonly commerce: CommerceProvider;
  readonly since: Date;
}

interface ProvidersOptions {
  readonly embedded: CommerceProvider;
  /** Whether live shops without a connection may use the embedded provider. Never in production. */
  readonly embeddedForLive: boolean;
  /** Opens the provider for one endpoint. Shops never share connections, even to the same host. */
  readonly openEndpoint: (endpoint: Endpoint) => OpenProvider;
  /** Opens the provider for one store at Shopify; undefined when COMMERCE_KEYRING is not set. */
  readonly openStore:
    | ((store: Store, o: { readonly sandbox: boolean }) => OpenProvider)
    | undefined;
  /** Decrypts the secrets of connections; undefined when COMMERCE_KEYRING is not set. */
  readonly keyring: Keyring | undefined;
  readonly logger: Logger;
  readonly meter: Meter;
}

/** Maximum number of providers in memory. Above it, the oldest is removed, together with its circuit breaker. */
const MAX_PROVIDERS = 1_000;
/** When a removed provider is closed. It is longer than a call. Milliseconds. */
const CLOSE_AFTER_MS = 30_000;
/**
 * Time limit of an effect at Shopify, which takes several requests. It is below the limit that processing sets.
 * Milliseconds.
 */
const SHOPIFY_CALL_MS = 11_000;

/**
 * Creates the providers. A connected shop has the provider of its connection. A sandbox shop without a connection has
 * the embedded provider, which moves no money. So has a live shop in local runs. In production, a live shop without a
 * connection has no provider. Each connection has its own limits and circuit breaker, so that a failing endpoint stops
 * only its own shop.
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
    const opened = open({ ...o, signingKeys }, { ...found, shopId });
    if (!opened) return undefined;
    const [oldest] = connected;
    if (connected.size >= MAX_PROVIDERS && oldest) {
      connected.delete(oldest[0]);
      // Close it later: requests in flight have a deadline, and must not be interrupted.
      setTimeout(() => void oldest[1].close(), CLOSE_AFTER_MS).unref();
    }
    connected.set(name, opened);
    return opened.commerce;
  };

  return {
    async close() {
      await Promise.all([...connected.values()].map(({ close }) => close()));
    },
    async connected(db, shopId) {
      const found = await find(db, shopId);
      if (!found?.since) return undefined;
      const commerce = providerOf(found, shopId);
      return commerce && { commerce, since: found.since };
    },
    async forLookUps(db, shopId) {
      const found = await find(db, shopId);
      const provider = found && providerOf(found, shopId);
      if (provider || !found?.since) return provider;
      throw new CommerceFailure(
        'passing',
        'the connection to the commerce platform cannot be used',
      );
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

/** Undefined when the service cannot decrypt what it needs, or the merchant has removed the Shopify app. */
function open(
  o: Pick<ProvidersOptions, 'openEndpoint' | 'openStore'> & {
    readonly signingKeys: SigningKeys | undefined;
  },
  { url, secrets, shopDomain, shopId, sandbox }: ShopFound,
): OpenProvider | undefined {
  if (o.signingKeys && url !== null && secrets !== null) {
    const keys = o.signingKeys(COMMERCE_SECRETS.contextOf({ shopId }), secrets);
    return withLimits(o.openEndpoint({ url, keys, sandbox }));
  }
  if (o.openStore && shopDomain !== null) {
    const timeoutMs = SHOPIFY_CALL_MS;
    return withLimits(o.openStore({ shopId, shopDomain }, { sandbox }), { timeoutMs });
  }
  return undefined;
}

async function find(db: Queryable, shopId: bigint): Promise<Found | undefined> {
  const statement = { name: 'commerce-provider', text: FIND, values: [shopId] };
  return (await db.query<Found>(statement)).rows[0];
}

interface Found {
  readonly sandbox: boolean;
  /** When the shop was connected; null without a connection. */
  readonly since: Date | null;
  /** The address of an endpoint; null for another provider. */
  readonly url: string | null;
  /** The valid signing secrets, newest first, encrypted as they are stored. See `SigningKeys`. */
  readonly secrets: string | null;
  /** The domain of a store at Shopify; null for another provider. */
  readonly shopDomain: string | null;
  /** Whether the store has given a token. False when the app was removed. */
  readonly isInstalled: boolean;
}

type ShopFound = Found & { readonly shopId: bigint };

function withLimits(
  { commerce, close }: OpenProvider,
  limits?: Parameters<typeof resilient>[1],
): OpenProvider {
  return { commerce: resilient(commerce, limits), close };
}

const FIND = `
select s.sandbox, c.url, c.shop_domain as "shopDomain", c.connected_at as since,
       (select string_agg(x.key_id || ':' || encode(x.sealed, 'hex'), ',' order by x.id desc)
          from commerce_secrets x
         where x.shop_id = c.shop_id and (x.expires_at is null or x.expires_at > now())) as secrets,
       exists (select from shopify_tokens t where t.shop_id = c.shop_id) as "isInstalled"
  from settings s left join commerce_connections c on c.shop_id = s.shop_id
 where s.shop_id = $1`;

/** Maximum number of concurrent calls to the provider, and of calls that wait. */
const CONCURRENT_CALLS = 32;
const WAITING_CALLS = 256;
/** The same for look-ups. Half of the connections to an endpoint stay free for effects, also when all look-ups hang. */
const CONCURRENT_LOOK_UPS = 4;
const WAITING_LOOK_UPS = 64;
/** Timeout of one call. During the call, the worker renews the lease of the job. Milliseconds. */
const CALL_TIMEOUT_MS = 8_000;
/** The circuit opens when half of the calls in the window failed and there were enough calls. */
const WINDOW_MS = 30_000;
const FAILED_SHARE = 0.5;
const CALLS_PER_SECOND = 0.3;
const RETRY_CIRCUIT_AFTER_MS = 5_000;

/**
 * Limits the number of calls to a provider and the duration of each call. Circuit breakers stop the calls to a provider
 * that fails: one the look-ups, and one the other calls. A call that one of these limits rejects is a `passing` failure. An outage of the ledger does not
 * count as a failure of the provider.
 */
export function resilient(
  provider: CommerceProvider,
  o: { timeoutMs?: number } = {},
): CommerceProvider {
  const passing = handleWhen((error) => !isFinal(error) && !(error instanceof LedgerUnavailable));
  const breaker = () =>
    circuitBreaker(passing, {
      halfOpenAfter: RETRY_CIRCUIT_AFTER_MS,
      breaker: new SamplingBreaker({
        threshold: FAILED_SHARE,
        duration: WINDOW_MS,
        minimumRps: CALLS_PER_SECOND,
      }),
    });
  const deadline = timeout(o.timeoutMs ?? CALL_TIMEOUT_MS, TimeoutStrategy.Aggressive);
  // The bulkhead is outside of the circuit breaker, so that its rejections do not open the circuit.
  const policy = wrap(bulkhead(CONCURRENT_CALLS, WAITING_CALLS), breaker(), deadline);
  // Look-ups have limits of their own: a provider whose look-ups alone fail or hang still makes effects.
  const lookUps = wrap(bulkhead(CONCURRENT_LOOK_UPS, WAITING_LOOK_UPS), breaker(), deadline);
  const { lookUp } = provider;
  return {
    settledAfterMs: provider.settledAfterMs,
    ...(provider.repeatableForMs && { repeatableForMs: provider.repeatableForMs }),
    ...(lookUp && {
      lookUp: (order, signal) => guarded(lookUps, signal, (inner) => lookUp(order, inner)),
    }),
    create: (request, signal) =>
      guarded(policy, signal, (inner) => provider.create(request, inner)),
    find: (request, signal) => guarded(policy, signal, (inner) => provider.find(request, inner)),
    list: (request, signal) => guarded(policy, signal, (inner) => provider.list(request, inner)),
  };
}

async function guarded<T>(
  policy: IPolicy<{ signal: AbortSignal }>,
  signal: AbortSignal,
  call: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  try {
    return await policy.execute((context) => call(context.signal), signal);
  } catch (error) {
    if (error instanceof CommerceFailure || error instanceof LedgerUnavailable) throw error;
    const isUnsent = isBrokenCircuitError(error) || isBulkheadRejectedError(error);
    throw new CommerceFailure('passing', 'the commerce provider did not respond', {
      cause: error,
      isUnsent,
    });
  }
}
