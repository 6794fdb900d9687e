import { ReturnsService } from '../../proto/gen/rms/returns/v1/returns_pb.ts';
import { createServiceClient } from '../platform/grpc/client.ts';
import { startKeyPurge } from '../platform/idempotency.ts';
import { type RunningService, type ServiceOptions, startService } from '../platform/service.ts';
import { startHandovers } from './hand-over.ts';
import { dispositionRoutes } from './service.ts';

export interface DispositionsOptions extends ServiceOptions {
  /** gRPC name of the returns service, which takes over every assessment and grading. */
  readonly returnsTarget: string;
}

/** Starts the dispositions service. While returns is unavailable, it runs and refuses writes with UNAVAILABLE. */
export function startDispositions(options: DispositionsOptions): Promise<RunningService> {
  return startService(
    {
      name: 'dispositions',
      publishes: true,
      build: ({ pool, backgroundPool, identity, telemetry, logger }) => {
        const target = options.returnsTarget;
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
    options,
  );
}
