import type pg from 'pg';
import { EventsService } from '../../../proto/gen/rms/events/v1/events_service_pb.ts';
import type { EventBus } from '../../../services/platform/bus/event-bus.ts';
import { eventsRoutes } from '../../../services/platform/outbox/routes.ts';
import { startServiceServer } from '../../../services/platform/process/service.ts';
import { createServiceClient } from '../../../services/platform/rpc/client.ts';
import { staticIdentity } from '../../../services/platform/security/identity.ts';
import { silentLogger, testTelemetry } from '../services/telemetry.ts';

const identity = staticIdentity('t'.repeat(32));

/** The events service over an outbox, called as webhooks calls it. Its bus can only publish. */
export async function startPublisher(pool: pg.Pool, topic: string, publish: EventBus['publish']) {
  const [logger, telemetry] = [silentLogger(), await testTelemetry()];
  const server = await startServiceServer({
    port: 0,
    identity,
    logger,
    telemetry,
    reflection: false,
    maxCallsInFlight: 100,
    isReady: async () => true,
    isOpen: () => true,
    routes: eventsRoutes({ pool, bus: { publish }, topic, logger }),
  });
  const target = `127.0.0.1:${server.port}`;
  const channel = createServiceClient(EventsService, { target, identity: identity.as('webhooks') });
  return {
    client: channel.client,
    target,
    async stop() {
      channel.close();
      await server.stop();
      await telemetry.stop();
    },
  };
}
