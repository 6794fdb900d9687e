import type { MessageInitShape } from '@bufbuild/protobuf';
import { CartsService } from '../../proto/gen/rms/carts/v1/carts_pb.ts';
import { Actor_Kind, type ActorSchema } from '../../proto/gen/rms/common/v1/actor_pb.ts';
import { DestinationsService } from '../../proto/gen/rms/destinations/v1/destinations_pb.ts';
import { DispositionsService } from '../../proto/gen/rms/dispositions/v1/dispositions_pb.ts';
import { FraudService } from '../../proto/gen/rms/fraud/v1/fraud_pb.ts';
import { ReturnsService } from '../../proto/gen/rms/returns/v1/returns_pb.ts';
import { WebhooksService } from '../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { createServiceClient } from '../../services/platform/grpc/client.ts';
import type { ServiceIdentity } from '../../services/platform/identity.ts';

/** The six services, by name. */
export const SERVICE_NAMES = [
  'returns',
  'dispositions',
  'destinations',
  'fraud',
  'carts',
  'webhooks',
] as const;

export type ServiceName = (typeof SERVICE_NAMES)[number];

/** The actor of everything that the local stack does by itself. */
export const LOCAL_ACTOR: MessageInitShape<typeof ActorSchema> = {
  kind: Actor_Kind.SERVICE,
  id: 'local-stack',
  name: 'Local stack',
};

/** Deadline of the local stack's calls: a cold machine may be slow. Milliseconds. */
const TIMEOUT_MS = 20_000;

/** Clients of all services; `close` ends their connections. */
export function createClients(
  targets: Readonly<Record<ServiceName, string>>,
  identity: ServiceIdentity,
) {
  const options = (name: ServiceName) => ({
    target: targets[name],
    identity,
    timeoutMs: TIMEOUT_MS,
  });
  const returns = createServiceClient(ReturnsService, options('returns'));
  const dispositions = createServiceClient(DispositionsService, options('dispositions'));
  const destinations = createServiceClient(DestinationsService, options('destinations'));
  const fraud = createServiceClient(FraudService, options('fraud'));
  const carts = createServiceClient(CartsService, options('carts'));
  const webhooks = createServiceClient(WebhooksService, options('webhooks'));
  const all = [returns, dispositions, destinations, fraud, carts, webhooks];
  return {
    returns: returns.client,
    dispositions: dispositions.client,
    destinations: destinations.client,
    fraud: fraud.client,
    carts: carts.client,
    webhooks: webhooks.client,
    close: () => {
      for (const one of all) one.close();
    },
  };
}

export type Clients = ReturnType<typeof createClients>;
