import type { DescService } from '@bufbuild/protobuf';
import type { ConnectRouter } from '@connectrpc/connect';
import type { ServiceTargets } from '../../../gateway/services.ts';
import { errorInterceptor } from '../../../services/platform/process/service.ts';
import { RPC_SERVICES } from '../../../services/platform/rpc/callers.ts';
import { startGrpcServer } from '../../../services/platform/rpc/server.ts';
import { forServices } from '../../../services/platform/services.ts';
import { createLogger } from '../../../services/platform/telemetry/log.ts';
import { FAKE } from './fake-objects.ts';
import { type FakeServices, fakeServices } from './fake-services.ts';

/** All services on one port, as real gRPC servers. They know the ids of {@link FAKE}. */
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
    targets: forServices(() => target),
    reset: () => {
      for (const [name, fake] of Object.entries(fakeServices())) {
        Object.assign(Reflect.get(services, name), fake);
      }
    },
    stop: () => server.stop(),
  };
}

function mount(router: ConnectRouter, services: FakeServices): void {
  const fakes: Readonly<Record<string, object>> = services;
  for (const [name, service] of Object.entries<DescService>(RPC_SERVICES)) {
    router.service(service, currentBehaviour(fakes[name] ?? {}));
  }
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
