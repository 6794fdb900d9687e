import { Code } from '@connectrpc/connect';
import pino from 'pino';
import { ErrorReason } from '../../../proto/gen/rms/common/v1/error_pb.ts';
import { DestinationsService } from '../../../proto/gen/rms/destinations/v1/destinations_pb.ts';
import { startServiceServer } from '../../../services/platform/process/service.ts';
import { startTelemetry } from '../../../services/platform/telemetry/telemetry.ts';
import { DomainError } from '../../../services/platform/values/errors.ts';
import { identity } from './running-service.ts';

/** Destinations of every shop. */
export const WAREHOUSE = 11n;
export const CLOSED_WAREHOUSE = 12n;

/** A destinations service that knows the two warehouses. */
export async function startFakeDestinations() {
  const telemetry = await startTelemetry({ service: 'destinations', metricsPort: 0 });
  const server = await startServiceServer({
    port: 0,
    identity,
    logger: pino({ level: 'silent' }),
    telemetry,
    reflection: false,
    maxCallsInFlight: 100,
    isOpen: () => true,
    isReady: async () => true,
    routes: (router) =>
      void router.service(DestinationsService, {
        async getDestination({ destinationId }) {
          if (destinationId !== WAREHOUSE && destinationId !== CLOSED_WAREHOUSE) {
            const reason = ErrorReason.DESTINATION_NOT_FOUND;
            throw new DomainError(Code.NotFound, reason, 'no such destination');
          }
          const address = { name: 'North', city: 'Leeds', countryCode: 'GB' };
          const enabled = destinationId === WAREHOUSE;
          return { destination: { id: destinationId, name: 'North', enabled, address } };
        },
      }),
  });
  return {
    port: server.port,
    async stop() {
      await server.stop();
      await telemetry.stop();
    },
  };
}
