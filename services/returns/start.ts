import { DestinationsService } from '../../proto/gen/rms/destinations/v1/destinations_pb.ts';
import { createServiceClient } from '../platform/grpc/client.ts';
import { type RunningService, type ServiceOptions, startService } from '../platform/service.ts';
import { startSweep } from '../platform/sweep/start.ts';
import { createEmbeddedCommerce } from './commerce/embedded.ts';
import type { CommerceProvider } from './commerce/provider.ts';
import { consumeFraudReports } from './fraud-events.ts';
import { buildProcessing } from './processing/build.ts';
import type { RetryDelay } from './processing/jobs.ts';
import { startPurge } from './purge.ts';
import { returnsRoutes } from './service.ts';
import { shareLarge } from './store/large.ts';

/** The default time for which events are stored. */
const DEFAULT_SNAPSHOT_DAYS = 7;

export interface ReturnsOptions extends ServiceOptions {
  /** gRPC name of the destinations service, which knows where goods may go. */
  readonly destinationsTarget: string;
  /** gRPC name of the fraud service, which publishes again what Kafka has lost of its events. */
  readonly fraudTarget: string;
  /** The commerce provider; by default the embedded one, with its ledger in this database. */
  readonly commerce?: CommerceProvider;
  /** Whether only shops marked as sandbox are processed: in production, with the embedded provider. */
  readonly onlySandboxShops?: boolean;
  /** The pause after a passing failure of the provider; for tests. */
  readonly retryDelay?: RetryDelay;
}

/**
 * Starts the returns service. It starts without the destinations service; until that one answers, calls that name a
 * destination fail with UNAVAILABLE.
 */
export function startReturns(options: ReturnsOptions): Promise<RunningService> {
  return startService(
    {
      name: 'returns',
      publishes: true,
      build: (runtime) => {
        const { pool, backgroundPool, streamPool, identity, telemetry, logger } = runtime;
        shareLarge(pool, backgroundPool, streamPool);
        const target = options.destinationsTarget;
        const channel = createServiceClient(DestinationsService, { target, identity, telemetry });
        const destinations = channel.client;
        const processing = buildProcessing(runtime, {
          commerce: options.commerce ?? createEmbeddedCommerce(backgroundPool),
          destinations,
          onlySandboxShops: options.onlySandboxShops ?? false,
          ...(options.retryDelay && { retryDelay: options.retryDelay }),
        });
        const snapshotDays = options.retentionDays ?? DEFAULT_SNAPSHOT_DAYS;
        return {
          routes: returnsRoutes({ pool, destinations }, processing.handlers),
          workers: async () => [
            ...(await processing.start()),
            await consumeFraudReports({ ...runtime, pool: streamPool }),
            startSweep(runtime, {
              ...{ group: 'returns', source: 'fraud', target: options.fraudTarget },
            }),
            startPurge({ pool: backgroundPool, logger, snapshotDays }),
          ],
          close: async () => channel.close(),
        };
      },
    },
    options,
  );
}
