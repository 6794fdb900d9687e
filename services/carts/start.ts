import {
  type RunningService,
  type ServiceOptions,
  type ServiceRuntime,
  startService,
} from '../platform/service.ts';
import { startLoop, type Worker } from '../platform/worker.ts';
import { cartRoutes } from './service.ts';
import { hashLeftTokens, purgeCarts } from './store.ts';

/** Pause between two deletions of old carts. Milliseconds. */
const PURGE_EVERY_MS = 3_600_000;

/** Starts the carts service. It calls no other service. */
export function startCarts(o: ServiceOptions): Promise<RunningService> {
  return startService(
    {
      name: 'carts',
      publishes: true,
      build: (runtime) => ({
        // The keyring also signs events. `PURPOSE` in `token.ts` separates the two uses.
        routes: cartRoutes({ pool: runtime.pool, tokenKeys: o.EVENT_KEYRING }),
        workers: async () => [startPurge({ ...runtime, pool: runtime.backgroundPool })],
      }),
    },
    o,
  );
}

/**
 * Starts the loop that deletes old carts. It needs no lease, because processes skip rows that another process is
 * deleting.
 */
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
