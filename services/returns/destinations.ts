import type { Client } from '@connectrpc/connect';
import type { Actor } from '../../proto/gen/rms/common/v1/actor_pb.ts';
import type {
  Destination,
  DestinationsService,
} from '../../proto/gen/rms/destinations/v1/destinations_pb.ts';

/** What returns asks of the destinations service. */
export type Destinations = Pick<Client<typeof DestinationsService>, 'getDestination'>;

/**
 * Reads a destination by an id of the caller's; undefined when none was chosen (0). Ask before a
 * transaction begins, never inside one.
 *
 * @throws ConnectError NOT_FOUND when the shop has none with that id, UNAVAILABLE when the
 *   destinations service does not answer.
 */
export async function destinationOf(
  destinations: Destinations,
  by: { readonly shopId: bigint; readonly actor: Actor },
  destinationId: bigint,
): Promise<Destination | undefined> {
  if (destinationId === 0n) return undefined;
  const { shopId, actor } = by;
  const { destination } = await destinations.getDestination({ shopId, actor, destinationId });
  return destination;
}
