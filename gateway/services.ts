import type { Client } from '@connectrpc/connect';
import { CartsService } from '../proto/gen/rms/carts/v1/carts_pb.ts';
import { CommerceService } from '../proto/gen/rms/commerce/v1/commerce_pb.ts';
import { DestinationsService } from '../proto/gen/rms/destinations/v1/destinations_pb.ts';
import { DispositionsService } from '../proto/gen/rms/dispositions/v1/dispositions_pb.ts';
import { FraudService } from '../proto/gen/rms/fraud/v1/fraud_pb.ts';
import { ReturnsService } from '../proto/gen/rms/returns/v1/returns_pb.ts';
import { WebhooksService } from '../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { grpcTarget, type Settings } from '../services/platform/config.ts';
import { createServiceClient } from '../services/platform/grpc/client.ts';
import type { ClientIdentity } from '../services/platform/identity.ts';
import type { Telemetry } from '../services/platform/telemetry.ts';

/** The services behind the gateway. */
export interface Services {
  readonly returns: Client<typeof ReturnsService>;
  /** Served by the returns service. */
  readonly commerce: Client<typeof CommerceService>;
  readonly dispositions: Client<typeof DispositionsService>;
  readonly destinations: Client<typeof DestinationsService>;
  readonly fraud: Client<typeof FraudService>;
  readonly carts: Client<typeof CartsService>;
  readonly webhooks: Client<typeof WebhooksService>;
}

/** gRPC names of the services, such as `dns:///returns:8080` or `127.0.0.1:9001`. */
export type ServiceTargets = Readonly<Record<Exclude<keyof Services, 'commerce'>, string>>;

const target = (name: string) => grpcTarget.describe(`gRPC name of the ${name} service`);

/** The variables with the gRPC names. */
export const targetsShape = {
  RETURNS_TARGET: target('returns'),
  DISPOSITIONS_TARGET: target('dispositions'),
  DESTINATIONS_TARGET: target('destinations'),
  FRAUD_TARGET: target('fraud'),
  CARTS_TARGET: target('carts'),
  WEBHOOKS_TARGET: target('webhooks'),
};

export function targetsOf(o: Settings<typeof targetsShape>): ServiceTargets {
  return {
    returns: o.RETURNS_TARGET,
    dispositions: o.DISPOSITIONS_TARGET,
    destinations: o.DESTINATIONS_TARGET,
    fraud: o.FRAUD_TARGET,
    carts: o.CARTS_TARGET,
    webhooks: o.WEBHOOKS_TARGET,
  };
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
  const returns = createServiceClient(ReturnsService, { target: targets.returns, ...common });
  const commerce = createServiceClient(CommerceService, { target: targets.returns, ...common });
  const dispositions = createServiceClient(DispositionsService, {
    target: targets.dispositions,
    ...common,
  });
  const destinations = createServiceClient(DestinationsService, {
    target: targets.destinations,
    ...common,
  });
  const fraud = createServiceClient(FraudService, { target: targets.fraud, ...common });
  const carts = createServiceClient(CartsService, { target: targets.carts, ...common });
  const webhooks = createServiceClient(WebhooksService, { target: targets.webhooks, ...common });
  const all = [returns, commerce, dispositions, destinations, fraud, carts, webhooks];
  return {
    services: {
      returns: returns.client,
      commerce: commerce.client,
      dispositions: dispositions.client,
      destinations: destinations.client,
      fraud: fraud.client,
      carts: carts.client,
      webhooks: webhooks.client,
    },
    async connected(withinMs) {
      await Promise.all(all.map((client) => client.connected(withinMs)));
    },
    close: () => {
      for (const client of all) client.close();
    },
  };
}
