import { DestinationsService } from '../../proto/gen/rms/destinations/v1/destinations_pb.ts';
import type { Backoff } from '../platform/backoff.ts';
import type { Settings } from '../platform/config.ts';
import { createServiceClient } from '../platform/grpc/client.ts';
import { type RunningService, type ServiceOptions, startService } from '../platform/service.ts';
import { startSweep } from '../platform/sweep/start.ts';
import { createEmbeddedCommerce } from './commerce/embedded.ts';
import type { CommerceProvider } from './commerce/provider.ts';
import type { returnsShape } from './config.ts';
import { consumeFraudReports } from './fraud-events.ts';
import { buildProcessing } from './processing/build.ts';
import { startPurge } from './purge.ts';
import { returnsRoutes } from './service.ts';
import { shareLarge } from './store/large.ts';

export interface ReturnsOptions extends ServiceOptions, Settings<typeof returnsShape> {
  /** The commerce provider; by default the embedded one, with its ledger in this database. */
  readonly commerce?: CommerceProvider;
  /** The pause after a transient failure of the provider; for tests. */
  readonly retryBackoff?: Backoff;
}

/**
 * Starts the returns service. It starts without the destinations service; until that service responds, calls with a
 * destination fail with UNAVAILABLE.
 */
export function startReturns(o: ReturnsOptions): Promise<RunningService> {
  return startService(
    {
      name: 'returns',
      publishes: true,
      build: (runtime) => {
        const { pool, backgroundPool, streamPool, identity, telemetry, logger } = runtime;
        shareLarge(pool, backgroundPool, streamPool);
        const target = o.DESTINATIONS_TARGET;
        const channel = createServiceClient(DestinationsService, { target, identity, telemetry });
        const destinations = channel.client;
        const processing = buildProcessing(runtime, {
          commerce: o.commerce ?? createEmbeddedCommerce(backgroundPool),
          destinations,
          onlySandboxShops: o.NODE_ENV === 'production' && o.COMMERCE_PROVIDER === 'embedded',
          ...(o.retryBackoff && { retryBackoff: o.retryBackoff }),
        });
        return {
          routes: returnsRoutes({ pool, destinations }, processing.handlers),
          workers: async () => [
            ...(await processing.start()),
            await consumeFraudReports({ ...runtime, pool: streamPool }),
            startSweep(runtime, {
              ...{ group: 'returns', source: 'fraud', target: o.FRAUD_TARGET },
            }),
            startPurge({ pool: backgroundPool, logger, snapshotDays: o.RETENTION_DAYS }),
          ],
          close: async () => channel.close(),
        };
      },
    },
    o,
  );
}
