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
import { type CommerceClient, createCommerceClient } from './commerce/http/client.ts';
import type { CommerceProvider } from './commerce/provider.ts';
import { createProviders, type Providers } from './commerce/providers.ts';
import { startReconciliations } from './commerce/reconciliations.ts';
import { commerceRoutes } from './commerce/service.ts';
import { createShopifyClient, type ShopifyClient } from './commerce/shopify/client.ts';
import { createAccessTokens, startTokenRefresh } from './commerce/shopify-app/access-tokens.ts';
import { startRedactions } from './commerce/shopify-app/redactions.ts';
import { type returnsShape, shopifyAppOf } from './config.ts';
import type { Destinations } from './destinations.ts';
import { startExpiry } from './expiry.ts';
import { consumeFraudReports } from './fraud-events.ts';
import { measureBacklog } from './processing/backlog.ts';
import { type Job, RETRY_BACKOFF } from './processing/jobs.ts';
import { startJobPurge } from './processing/purge.ts';
import { runJob } from './processing/run.ts';
import { startProcessingWorker } from './processing/worker.ts';
import { startPurge } from './purge.ts';
import { returnsRoutes } from './service.ts';
import { shareLarge } from './store/large.ts';

export interface ReturnsOptions extends ServiceOptions, Settings<typeof returnsShape> {
  /** Instead of the embedded commerce provider, which has its ledger in this database (tests). */
  readonly commerce?: CommerceProvider;
  /** Opens the HTTP client of a provider, instead of one that connects to public addresses (tests). */
  readonly openCommerceClient?: () => CommerceClient;
  /** Opens the client of Shopify's Admin API, instead of one that connects to stores (tests). */
  readonly openShopifyClient?: () => ShopifyClient;
  /** Ports of the stack itself, at which no shop may have its endpoint. */
  readonly stackPorts?: () => readonly number[];
  /** The pause after a transient failure of the provider; for tests. */
  readonly retryBackoff?: Backoff;
}

/**
 * Starts the returns service. It starts without the destinations service; until that service responds, calls with a
 * destination fail with UNAVAILABLE.
 */
export function startReturns(o: ReturnsOptions): Promise<RunningService> {
  return startService(
    { name: 'returns', publishes: true, build: (runtime) => build(o, runtime) },
    o,
  );
}

function build(o: ReturnsOptions, runtime: ServiceRuntime) {
  const { pool, backgroundPool, streamPool, identity, telemetry, logger } = runtime;
  shareLarge(pool, backgroundPool, streamPool);
  const target = o.DESTINATIONS_TARGET;
  const channel = createServiceClient(DestinationsService, { target, identity, telemetry });
  const destinations = channel.client;
  const { meter } = telemetry;
  const policy = {
    allowedOrigins: o.COMMERCE_ALLOWED_ORIGINS,
    stackPorts: o.stackPorts ?? (() => []),
  };
  const keyring = o.COMMERCE_KEYRING;
  const openClient = o.openCommerceClient ?? (() => createCommerceClient({ policy }));
  const client = openClient();
  const app = shopifyAppOf(o);
  const tokens =
    keyring && createAccessTokens({ pool: backgroundPool, client, app, logger, keyring, meter });
  const providers = createProviders({
    ...{ keyring, logger, meter, openClient, accessTokens: tokens },
    openShopifyClient: o.openShopifyClient ?? (() => createShopifyClient({ policy })),
    embedded: o.commerce ?? createEmbeddedCommerce(backgroundPool),
    embeddedForLive: o.NODE_ENV !== 'production',
  });
  const webhooks = meter.createCounter('shopify.webhooks', {
    description: 'Webhooks of Shopify by topic and result',
  });
  const returnsDeps = { pool, destinations, logger, providers, onQueued: () => onQueued() };
  let onQueued = (): void => {};
  let onQueuedRedaction = (): void => {};
  return {
    routes: (router: ConnectRouter) => {
      returnsRoutes(returnsDeps)(router);
      const onRedaction = () => onQueuedRedaction();
      const shopify = { app, onRedaction, webhooks };
      commerceRoutes({ pool, logger, keyring, policy, client, providers, ...shopify })(router);
    },
    async workers() {
      // First what can fail, because a worker that was started before would not be stopped.
      const fraudReports = await consumeFraudReports({ ...runtime, pool: streamPool });
      const run = jobRunner(o, runtime, { destinations, providers });
      const processing = startProcessingWorker({ pool: backgroundPool, logger, run });
      onQueued = processing.wake;
      const redactions = startRedactions({ pool: backgroundPool, logger });
      onQueuedRedaction = redactions.wake;
      return [
        processing,
        redactions,
        ...(tokens ? [startTokenRefresh({ tokens, logger })] : []),
        startExpiry({ pool: backgroundPool, logger }),
        startJobPurge({ pool: backgroundPool, logger }),
        measureBacklog({ pool: backgroundPool, meter }),
        startReconciliations({ pool: backgroundPool, logger, meter, providers }),
        fraudReports,
        startSweep(runtime, {
          ...{ group: 'returns', source: 'fraud', target: o.FRAUD_TARGET },
        }),
        startPurge({ pool: backgroundPool, logger, snapshotDays: o.RETENTION_DAYS }),
      ];
    },
    async close() {
      channel.close();
      await Promise.all([client.close(), providers.close()]);
    },
  };
}

/** Runs one job of processing with the commerce provider of its shop. */
function jobRunner(
  o: ReturnsOptions,
  { backgroundPool: pool, logger }: ServiceRuntime,
  about: { readonly destinations: Destinations; readonly providers: Providers },
): (job: Job, signal: AbortSignal) => Promise<void> {
  const deps = {
    ...{ pool, logger, ...about },
    retryBackoff: o.retryBackoff ?? RETRY_BACKOFF,
  };
  return (job, signal) => runJob(deps, job, signal);
}
