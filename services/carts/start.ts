import {
  type RunningService,
  type ServiceOptions,
  type ServiceRuntime,
  startService,
} from '../platform/service.ts';
import { startLoop, type Worker } from '../platform/worker.ts';
import { cartRoutes } from './service.ts';
import { hashLeftTokens, purgeCarts } from './store.ts';

/** How often old carts are looked for. Milliseconds. */
const PURGE_EVERY_MS = 3_600_000;

/** Starts the carts service, which needs no other. */
export function startCarts(options: ServiceOptions): Promise<RunningService> {
  return startService(
    {
      name: 'carts',
      publishes: true,
      build: (runtime) => ({
        // The ring is one that every service has; a purpose of its own separates the two uses.
        routes: cartRoutes({ pool: runtime.pool, tokenKeys: options.eventSignatures.keys }),
        workers: async () => [startPurge({ ...runtime, pool: runtime.backgroundPool })],
      }),
    },
    options,
  );
}

/** Needs no lease: replicas skip the rows that another is deleting. */
function startPurge({ pool, logger }: ServiceRuntime): Worker {
  return startLoop({
    name: 'purge carts',
    idleMs: PURGE_EVERY_MS,
    logger,
    step: async () => {
      await hashLeftTokens(pool);
      return (await purgeCarts(pool)) ? 'again' : 'idle';
    },
  });
}
