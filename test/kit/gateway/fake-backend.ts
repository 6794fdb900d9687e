import type { ConnectRouter } from '@connectrpc/connect';
import type { ServiceTargets } from '../../../gateway/services.ts';
import { CartsService } from '../../../proto/gen/rms/carts/v1/carts_pb.ts';
import { CommerceService } from '../../../proto/gen/rms/commerce/v1/commerce_pb.ts';
import { DestinationsService } from '../../../proto/gen/rms/destinations/v1/destinations_pb.ts';
import { DispositionsService } from '../../../proto/gen/rms/dispositions/v1/dispositions_pb.ts';
import { FraudService } from '../../../proto/gen/rms/fraud/v1/fraud_pb.ts';
import { ReturnsService } from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { WebhooksService } from '../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { errorInterceptor } from '../../../services/platform/grpc/errors.ts';
import { startGrpcServer } from '../../../services/platform/grpc/server.ts';
import { createLogger } from '../../../services/platform/log.ts';
import { FAKE } from './fake-objects.ts';
import { type FakeServices, fakeServices } from './fake-services.ts';

/** The six services on one port, as real gRPC servers. They know the ids of {@link FAKE}. */
export async function startFakeBackend(): Promise<{
  readonly services: FakeServices;
  readonly targets: ServiceTargets;
  /** Resets every RPC to its original behaviour. */
  reset(): void;
  stop(): Promise<void>;
}> {
  const services: FakeServices = fakeServices();
  const server = await startGrpcServer({
    port: 0,
    routes: (router) => {
      mount(router, services);
    },
    interceptors: [errorInterceptor(createLogger({ service: 'fake', level: 'silent' }))],
  });
  const target = `127.0.0.1:${server.port}`;
  return {
    services,
    targets: {
      returns: target,
      dispositions: target,
      destinations: target,
      fraud: target,
      carts: target,
      webhooks: target,
    },
    reset: () => {
      for (const [name, fake] of Object.entries(fakeServices())) {
        Object.assign(Reflect.get(services, name), fake);
      }
    },
    stop: () => server.stop(),
  };
}

function mount(router: ConnectRouter, services: FakeServices): void {
  router.service(ReturnsService, currentBehaviour(services.returns));
  router.service(CommerceService, currentBehaviour(services.commerce));
  router.service(DispositionsService, currentBehaviour(services.dispositions));
  router.service(DestinationsService, currentBehaviour(services.destinations));
  router.service(FraudService, currentBehaviour(services.fraud));
  router.service(CartsService, currentBehaviour(services.carts));
  router.service(WebhooksService, currentBehaviour(services.webhooks));
}

/** Reads the behaviour at each call, so that a test can replace it while the server runs. */
function currentBehaviour<T extends object>(fake: T): T {
  return new Proxy(fake, {
    get: (target, name) => (request: unknown, context: unknown) => {
      const behaviour: unknown = Reflect.get(target, name);
      if (typeof behaviour !== 'function') throw new Error(`no fake of ${String(name)}`);
      return behaviour(request, context);
    },
  });
}
