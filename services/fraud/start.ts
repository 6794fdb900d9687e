import { ReturnsService } from '../../proto/gen/rms/returns/v1/returns_pb.ts';
import { createServiceClient } from '../platform/grpc/client.ts';
import { startKeyPurge } from '../platform/idempotency.ts';
import { type RunningService, type ServiceOptions, startService } from '../platform/service.ts';
import { fraudRoutes } from './service.ts';

export interface FraudOptions extends ServiceOptions {
  /** gRPC name of the returns service, which is asked whether a return exists. */
  readonly returnsTarget: string;
}

/** Starts the fraud service. While the returns service is unavailable, reports are answered UNAVAILABLE. */
export function startFraud(options: FraudOptions): Promise<RunningService> {
  return startService(
    {
      name: 'fraud',
      publishes: true,
      build: ({ pool, backgroundPool, identity, telemetry, logger }) => {
        const target = options.returnsTarget;
        const returns = createServiceClient(ReturnsService, { target, identity, telemetry });
        return {
          routes: fraudRoutes({ pool, returns: returns.client }),
          workers: async () => [startKeyPurge({ pool: backgroundPool, logger })],
          close: async () => returns.close(),
        };
      },
    },
    options,
  );
}
