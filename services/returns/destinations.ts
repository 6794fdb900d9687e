import type { Client } from '@connectrpc/connect';
import type {
  Destination,
  DestinationsService,
} from '../../proto/gen/rms/destinations/v1/destinations_pb.ts';
import { serviceActor } from '../platform/security/identity.ts';

/** The actor of returns' calls to destinations, because only the gateway may name users as actors. */
const RETURNS = serviceActor('returns');

/** The part of the destinations client that returns uses. */
export type Destinations = Pick<Client<typeof DestinationsService>, 'getDestination'>;

/**
 * Reads a destination. Undefined for the id 0, which means no destination. Must not be called inside a transaction,
 * because it waits for another service.
 *
 * @throws ConnectError NOT_FOUND when the shop has no destination with this id; UNAVAILABLE when the destinations
 *   service does not respond.
 */
export async function destinationOf(
  destinations: Destinations,
  { shopId }: { readonly shopId: bigint },
  destinationId: bigint,
): Promise<Destination | undefined> {
  if (destinationId === 0n) return undefined;
  const { destination } = await destinations.getDestination({
    shopId,
    actor: RETURNS,
    destinationId,
  });
  return destination;
}
