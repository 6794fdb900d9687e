import type { DescService } from '@bufbuild/protobuf';
import type { Client } from '@connectrpc/connect';
import { grpcTarget, type Settings } from '../services/platform/process/config.ts';
import { RPC_SERVICES } from '../services/platform/rpc/callers.ts';
import { createServiceClient } from '../services/platform/rpc/client.ts';
import type { ClientIdentity } from '../services/platform/security/identity.ts';
import {
  forServices,
  forTargets,
  type ServiceName,
  targetVariable,
} from '../services/platform/services.ts';
import type { Telemetry } from '../services/platform/telemetry/telemetry.ts';

type RpcServices = typeof RPC_SERVICES;

/** The services behind the gateway. */
export type Services = { readonly [Name in keyof RpcServices]: Client<RpcServices[Name]> };

/** gRPC names of the services, such as `dns:///returns:8080` or `127.0.0.1:9001`. */
export type ServiceTargets = Readonly<Record<ServiceName, string>>;

/** The variables with the gRPC names. */
export const targetsShape = forTargets((name) =>
  grpcTarget.describe(`gRPC name of the ${name} service`),
);

export function targetsOf(o: Settings<typeof targetsShape>): ServiceTargets {
  return forServices((name) => o[targetVariable(name)]);
}

export interface ConnectedServices {
  readonly services: Services;
  /** Resolves when every service is connected, or after this time. Milliseconds. */
  connected(withinMs: number): Promise<void>;
  close(): void;
}

/**
 * Creates the clients of all services. A client connects on first use or with `connected`, so services may start after
 * the gateway.
 */
export function connectServices(
  targets: ServiceTargets,
  common: { readonly identity: ClientIdentity; readonly telemetry?: Telemetry },
): ConnectedServices {
  const { commerce, ...others } = RPC_SERVICES;
  const connect = <S extends DescService>(service: S, target: string) =>
    createServiceClient(service, { target, ...common });
  const clients = {
    ...forServices((name) => connect(others[name], targets[name])),
    commerce: connect(commerce, targets.returns),
  };
  const all = Object.values(clients);
  return {
    services: Object.fromEntries(
      Object.entries(clients).map(([name, { client }]) => [name, client]),
    ) as unknown as Services,
    async connected(withinMs) {
      await Promise.all(all.map((client) => client.connected(withinMs)));
    },
    close: () => {
      for (const client of all) client.close();
    },
  };
}
