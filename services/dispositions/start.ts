import { ReturnsService } from '../../proto/gen/rms/returns/v1/returns_pb.ts';
import type { Settings } from '../platform/config.ts';
import { createServiceClient } from '../platform/grpc/client.ts';
import { startKeyPurge } from '../platform/idempotency.ts';
import { type RunningService, type ServiceOptions, startService } from '../platform/service.ts';
import type { dispositionsShape } from './config.ts';
import { startHandovers } from './hand-over.ts';
import { dispositionRoutes } from './service.ts';

export type DispositionsOptions = ServiceOptions & Settings<typeof dispositionsShape>;

/** Starts the dispositions service. While returns is unavailable, its writes fail with UNAVAILABLE. */
export function startDispositions(o: DispositionsOptions): Promise<RunningService> {
  return startService(
    {
      name: 'dispositions',
      publishes: true,
      build: ({ pool, backgroundPool, identity, telemetry, logger }) => {
        const target = o.RETURNS_TARGET;
        const returns = createServiceClient(ReturnsService, { target, identity, telemetry });
        const deps = { pool, returns: returns.client };
        return {
          routes: dispositionRoutes(deps),
          workers: async () => [
            startHandovers({ ...deps, pool: backgroundPool }, logger),
            startKeyPurge({ pool: backgroundPool, logger }),
          ],
          close: async () => returns.close(),
        };
      },
    },
    o,
  );
}
