import type { Client } from '@connectrpc/connect';
import type {
  Destination,
  DestinationsService,
} from '../../proto/gen/rms/destinations/v1/destinations_pb.ts';
import { serviceActor } from '../platform/identity.ts';

/** Only the gateway names people as actors; this read has none. */
const RETURNS = serviceActor('returns');

/** The part of the destinations service that returns uses. */
export type Destinations = Pick<Client<typeof DestinationsService>, 'getDestination'>;

/**
 * Reads a destination by an id of the caller's; undefined when the caller chose none (0). Call it before a
 * transaction, never inside one.
 *
 * @throws ConnectError NOT_FOUND when the shop has none with that id, UNAVAILABLE when the
 *   destinations service does not answer.
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
