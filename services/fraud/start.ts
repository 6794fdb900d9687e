import { ReturnsService } from '../../proto/gen/rms/returns/v1/returns_pb.ts';
import type { Settings } from '../platform/config.ts';
import { createServiceClient } from '../platform/grpc/client.ts';
import { startKeyPurge } from '../platform/idempotency.ts';
import { type RunningService, type ServiceOptions, startService } from '../platform/service.ts';
import type { fraudShape } from './config.ts';
import { fraudRoutes } from './service.ts';

export type FraudOptions = ServiceOptions & Settings<typeof fraudShape>;

/** Starts the fraud service. While returns is unavailable, writes fail with UNAVAILABLE. */
export function startFraud(o: FraudOptions): Promise<RunningService> {
  return startService(
    {
      name: 'fraud',
      publishes: true,
      build: ({ pool, backgroundPool, identity, telemetry, logger }) => {
        const target = o.RETURNS_TARGET;
        const returns = createServiceClient(ReturnsService, { target, identity, telemetry });
        return {
          routes: fraudRoutes({ pool, returns: returns.client }),
          workers: async () => [startKeyPurge({ pool: backgroundPool, logger })],
          close: async () => returns.close(),
        };
      },
    },
    o,
  );
}
