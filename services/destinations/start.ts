import { startKeyPurge } from '../platform/idempotency.ts';
import { type RunningService, type ServiceOptions, startService } from '../platform/service.ts';
import { destinationRoutes } from './service.ts';

/** Starts the destinations service. It calls no other service. */
export function startDestinations(options: ServiceOptions): Promise<RunningService> {
  return startService(
    {
      name: 'destinations',
      publishes: true,
      build: ({ pool, backgroundPool, logger }) => ({
        routes: destinationRoutes(pool),
        workers: async () => [startKeyPurge({ pool: backgroundPool, logger })],
      }),
    },
    options,
  );
}
