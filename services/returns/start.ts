import type { ConnectRouter } from '@connectrpc/connect';
import { DestinationsService } from '../../proto/gen/rms/destinations/v1/destinations_pb.ts';
import { createCheckRuns } from '../commerce/check/runs.ts';
import { createEmbeddedCommerce } from '../commerce/embedded.ts';
import { createOrderFinder } from '../commerce/find-order.ts';
import { createHttpCommerce } from '../commerce/http/adapter.ts';
import { type CommerceClient, createCommerceClient } from '../commerce/http/client.ts';
import type { CommerceProvider } from '../commerce/provider.ts';
import { createProviders, type Endpoint, type OpenProvider } from '../commerce/providers.ts';
import { startReconciliations } from '../commerce/reconciliations.ts';
import { createRequestWatch, startRequestWatch } from '../commerce/request-watch.ts';
import { createShopifyCommerce } from '../commerce/shopify/adapter.ts';
import { createShopifyClient, type ShopifyClient } from '../commerce/shopify/client.ts';
import {
  type AccessTokens,
  createAccessTokens,
  startTokenRefresh,
} from '../commerce/shopify-app/access-tokens.ts';
import type { Store } from '../commerce/shopify-app/app.ts';
import { startSweep } from '../platform/outbox/sweep.ts';
import type { Backoff } from '../platform/process/backoff.ts';
import type { Settings } from '../platform/process/config.ts';
import {
  type RunningService,
  type ServiceOptions,
  type ServiceRuntime,
  startService,
} from '../platform/process/service.ts';
import { createServiceClient } from '../platform/rpc/client.ts';
import { type returnsShape, shopifyAppOf } from './config.ts';
import { consumeFraudReports } from './fraud/fraud-events.ts';
import { createInspectionStore } from './inspections/inspection-store.ts';
import { automaticProcessing } from './policy/automatic.ts';
import { type Job, RETRY_BACKOFF } from './processing/jobs.ts';
import { runJob } from './processing/run.ts';
import { measureBacklog, NO_PLACES, startProcessingWorker } from './processing/worker.ts';
import { startExpiry } from './retention/expiry.ts';
import { startJobPurge, startPurge } from './retention/purge.ts';
import { startRedactions } from './retention/redact.ts';
import { commerceRoutes, returnsRoutes } from './service.ts';
import { createLargeWork } from './store/large.ts';
import { createReturnReader } from './store/return-reader.ts';
import { createReturnStore } from './store/return-store.ts';
import { startWithdrawalReturns } from './withdrawals/worker.ts';

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
  const commerce = createCommerce(o, runtime);
  const { providers } = commerce;
  const orders = createOrderFinder({ pool, providers });
  const automatic = automaticProcessing(providers);
  const requests = { pool, logger, store: createReturnStore({ pool, large, automatic }) };
  const reader = createReturnReader({ pool, large });
  const inspections = createInspectionStore({ pool, large, automatic });
  const store = createReturnStore({ pool: backgroundPool, large, automatic });
  const background = { pool: backgroundPool, logger, store };
  const target = o.DESTINATIONS_TARGET;
  const channel = createServiceClient(DestinationsService, { target, identity, telemetry });
  const destinations = channel.client;
  const { meter } = telemetry;
  const watch = createRequestWatch();
  const checkRuns = createCheckRuns({ pool: backgroundPool, logger });
  let places = NO_PLACES;
  let onQueuedRedaction = (): void => {};
  let onWithdrawal = (): void => {};
  return {
    routes: (router: ConnectRouter) => {
      returnsRoutes({
        ...requests,
        reader,
        inspections,
        destinations,
        providers,
        orders,
        places: { queueing: (queue) => places.queueing(queue) },
        onWithdrawal: () => onWithdrawal(),
      })(router);
      commerceRoutes({
        ...requests,
        ...commerce,
        checkRuns,
        watch,
        onRedaction: () => onQueuedRedaction(),
      })(router);
    },
    async workers() {
      // Start this first, because it can fail, and nothing would stop a worker that was started before it.
      const fraudReports = await consumeFraudReports({ ...runtime, pool: streamPool });
      const retryBackoff = o.retryBackoff ?? RETRY_BACKOFF;
      const runDeps = { ...background, destinations, providers, retryBackoff, watch };
      const run = (job: Job, signal: AbortSignal) => runJob(runDeps, job, signal);
      const processing = startProcessingWorker({ ...background, run });
      places = processing;
      const redactions = startRedactions(background);
      onQueuedRedaction = redactions.wake;
      const withdrawals = startWithdrawalReturns({
        ...background,
        destinations,
        providers,
        orders,
      });
      onWithdrawal = withdrawals.wake;
      return [
        processing,
        checkRuns,
        startRequestWatch({ ...background, watch }),
        redactions,
        withdrawals,
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
