import { useQuery } from '@connectrpc/connect-query';
import { DestinationsService } from '../../../../proto/gen/rms/destinations/v1/destinations_pb.ts';

/** The name of a destination; its number when the name cannot be read. */
export function DestinationName({ id }: { readonly id: bigint }) {
  const { getDestination } = DestinationsService.method;
  const { data, error } = useQuery(getDestination, { destinationId: id }, { staleTime: 60_000 });
  return data?.destination?.name ?? (error ? String(id) : '');
}
