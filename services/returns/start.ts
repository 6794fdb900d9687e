import type { ConnectRouter } from '@connectrpc/connect';
import { DestinationsService } from '../../proto/gen/rms/destinations/v1/destinations_pb.ts';
import type { Backoff } from '../platform/backoff.ts';
import type { Settings } from '../platform/config.ts';
import { createServiceClient } from '../platform/grpc/client.ts';
import {
  type RunningService,
  type ServiceOptions,
  type ServiceRuntime,
  startService,
} from '../platform/service.ts';
import { startSweep } from '../platform/sweep/start.ts';
import { createEmbeddedCommerce } from './commerce/embedded.ts';
import { createHttpCommerce } from './commerce/http/adapter.ts';
import { type CommerceClient, createCommerceClient } from './commerce/http/client.ts';
import type { CommerceProvider } from './commerce/provider.ts';
import { createProviders, type Endpoint, type OpenProvider } from './commerce/providers.ts';
import { startReconciliations } from './commerce/reconciliations.ts';
import { createRequestWatch, startRequestWatch } from './commerce/request-watch.ts';
import { commerceRoutes } from './commerce/service.ts';
import { createShopifyCommerce } from './commerce/shopify/adapter.ts';
import { createShopifyClient, type ShopifyClient } from './commerce/shopify/client.ts';
import {
  type AccessTokens,
  createAccessTokens,
  startTokenRefresh,
} from './commerce/shopify-app/access-tokens.ts';
import type { Store } from './commerce/shopify-app/app.ts';
import { startRedactions } from './commerce/shopify-app/redactions.ts';
import { type returnsShape, shopifyAppOf } from './config.ts';
import { startExpiry } from './expiry.ts';
import { consumeFraudReports } from './fraud-events.ts';
import { createInspectionStore } from './inspections/inspection-store.ts';
import { measureBacklog } from './processing/backlog.ts';
import { type Job, RETRY_BACKOFF } from './processing/jobs.ts';
import { startJobPurge } from './processing/purge.ts';
import { runJob } from './processing/run.ts';
import { startProcessingWorker } from './processing/worker.ts';
import { startPurge } from './purge.ts';
import { returnsRoutes } from './service.ts';
import { createReturnStore } from './store/create-return-store.ts';
import { createLargeWork } from './store/large.ts';
import { createReturnReader } from './store/return-reader.ts';

export interface ReturnsOptions extends ServiceOptions, Settings<typeof returnsShape> {
  /** Replaces the embedded commerce provider, whose ledger is in this database (tests). */
  readonly commerce?: CommerceProvider;
  /** Opens the HTTP client for endpoints. By default it connects only to public addresses (tests). */
  readonly openCommerceClient?: () => CommerceClient;
  /** Opens the client for Shopify's Admin API. By default it connects to stores (tests). */
  readonly openShopifyClient?: () => ShopifyClient;
  /** Ports of this stack. No endpoint of a shop may use them. */
  readonly stackPorts?: () => readonly number[];
  /** The pauses after `passing` failures of the provider (tests). */
  readonly retryBackoff?: Backoff;
}

/**
 * Starts the returns service. It also starts when the destinations service is unavailable. Until that service responds,
 * calls with a destination fail with UNAVAILABLE.
 */
export function startReturns(o: ReturnsOptions): Promise<RunningService> {
  return startService(
    { name: 'returns', publishes: true, build: (runtime) => build(o, runtime) },
    o,
  );
}

function build(o: ReturnsOptions, runtime: ServiceRuntime) {
  const { pool, backgroundPool, streamPool, identity, telemetry, logger } = runtime;
  const large = createLargeWork();
  const requests = { pool, logger, store: createReturnStore({ pool, large }) };
  const reader = createReturnReader({ pool, large });
  const inspections = createInspectionStore({ pool, large });
  const store = createReturnStore({ pool: backgroundPool, large });
  const background = { pool: backgroundPool, logger, store };
  const target = o.DESTINATIONS_TARGET;
  const channel = createServiceClient(DestinationsService, { target, identity, telemetry });
  const destinations = channel.client;
  const { meter } = telemetry;
  const commerce = createCommerce(o, runtime);
  const { providers } = commerce;
  const watch = createRequestWatch();
  let onQueued = (): void => {};
  let onQueuedRedaction = (): void => {};
  return {
    routes: (router: ConnectRouter) => {
      returnsRoutes({
        ...requests,
        reader,
        inspections,
        destinations,
        providers,
        onQueued: () => onQueued(),
      })(router);
      commerceRoutes({ ...requests, ...commerce, watch, onRedaction: () => onQueuedRedaction() })(
        router,
      );
    },
    async workers() {
      // Start this first, because it can fail, and nothing would stop a worker that was started before it.
      const fraudReports = await consumeFraudReports({ ...runtime, pool: streamPool });
      const retryBackoff = o.retryBackoff ?? RETRY_BACKOFF;
      const runDeps = { ...background, destinations, providers, retryBackoff, watch };
      const run = (job: Job, signal: AbortSignal) => runJob(runDeps, job, signal);
      const processing = startProcessingWorker({ ...background, run });
      onQueued = processing.wake;
      const redactions = startRedactions(background);
      onQueuedRedaction = redactions.wake;
      return [
        processing,
        startRequestWatch({ ...background, watch }),
        redactions,
        ...(commerce.tokens ? [startTokenRefresh({ tokens: commerce.tokens, logger })] : []),
        startExpiry(background),
        startJobPurge(background),
        measureBacklog({ pool: backgroundPool, meter }),
        startReconciliations({ ...background, meter, providers }),
        fraudReports,
        startSweep(runtime, {
          ...{ group: 'returns', source: 'fraud', target: o.FRAUD_TARGET },
        }),
        startPurge({ ...background, snapshotDays: o.RETENTION_DAYS }),
      ];
    },
    async close() {
      channel.close();
      await Promise.all([commerce.client.close(), providers.close()]);
    },
  };
}

/** Creates what the use cases need to call commerce providers. */
function createCommerce(o: ReturnsOptions, runtime: ServiceRuntime) {
  const { backgroundPool: pool, logger, telemetry } = runtime;
  const { meter } = telemetry;
  const policy = {
    allowedOrigins: o.COMMERCE_ALLOWED_ORIGINS,
    stackPorts: o.stackPorts ?? (() => []),
  };
  const keyring = o.COMMERCE_KEYRING;
  const openClient = o.openCommerceClient ?? (() => createCommerceClient({ policy }));
  const openShopify = o.openShopifyClient ?? (() => createShopifyClient({ policy }));
  const client = openClient();
  const app = shopifyAppOf(o);
  const tokens = keyring && createAccessTokens({ pool, client, app, logger, keyring, meter });
  const providers = createProviders({
    keyring,
    logger,
    meter,
    embedded: o.commerce ?? createEmbeddedCommerce(pool),
    embeddedForLive: o.NODE_ENV !== 'production',
    openEndpoint: (endpoint) => openedEndpoint(openClient(), endpoint),
    openStore:
      tokens && ((store, { sandbox }) => openedStore(openShopify(), { tokens, store, sandbox })),
  });
  const webhooks = meter.createCounter('shopify.webhooks', {
    description: 'Webhooks of Shopify by topic and result',
  });
  return { app, client, keyring, policy, providers, tokens, webhooks };
}

function openedEndpoint(client: CommerceClient, endpoint: Endpoint): OpenProvider {
  const commerce = createHttpCommerce({ client, ...endpoint });
  return { commerce, close: () => client.close() };
}

function openedStore(
  client: ShopifyClient,
  o: { readonly tokens: AccessTokens; readonly store: Store; readonly sandbox: boolean },
): OpenProvider {
  const { tokens, store, sandbox } = o;
  const commerce = createShopifyCommerce({
    client,
    shopDomain: store.shopDomain,
    sandbox,
    access: () => tokens.of(store),
    onRejected: (accessToken) => tokens.rejected(store, accessToken),
  });
  return { commerce, close: () => client.close() };
}
