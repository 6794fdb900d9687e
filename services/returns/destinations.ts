import type { Client } from '@connectrpc/connect';
import type {
  Destination,
  DestinationsService,
} from '../../proto/gen/rms/destinations/v1/destinations_pb.ts';
import { serviceActor } from '../platform/identity.ts';

/** The actor of these reads. Only the gateway may name users as actors. */
const RETURNS = serviceActor('returns');

/** The part of the destinations service that returns uses. */
export type Destinations = Pick<Client<typeof DestinationsService>, 'getDestination'>;

/**
 * Reads a destination; undefined for the id 0, which means none. Call it before a transaction, never inside one.
 *
 * @throws ConnectError NOT_FOUND when the shop has no destination with that id; UNAVAILABLE when the destinations
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
