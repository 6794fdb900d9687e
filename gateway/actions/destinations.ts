import {
  type Destination,
  DestinationType,
  DestinationTypeSchema,
} from '../../proto/gen/rms/destinations/v1/destinations_pb.ts';
import type { DestinationBody } from '../../services/contract/resources/destination.ts';
import { enumText } from '../../services/platform/enum-text.ts';
import { type ActionContext, callerOf, sent } from './context.ts';

const TYPE = enumText(DestinationTypeSchema);

/** Returns the shop's destinations, ordered by id. */
export async function listDestinations(context: ActionContext): Promise<Destination[]> {
  const { destinations } = context.services;
  return (await destinations.listDestinations(callerOf(context))).destinations;
}

/** Changes a destination. Absent fields are not changed. An address replaces the whole stored address. */
export async function updateDestination(
  context: ActionContext,
  destinationId: bigint,
  body: DestinationBody,
  idempotencyKey = '',
): Promise<Destination> {
  const { name, type, enabled, address } = body;
  const { destination } = await context.services.destinations.updateDestination({
    ...callerOf(context),
    destinationId,
    idempotencyKey,
    name,
    type: type ? TYPE.fromText(type) : DestinationType.UNSPECIFIED,
    ...(typeof enabled === 'boolean' && { enabled }),
    ...(address && { address: addressOf(address) }),
  });
  return sent(destination, 'destination');
}

function addressOf(address: NonNullable<DestinationBody['address']>) {
  return {
    name: address.name ?? '',
    company: address.company ?? '',
    address1: address.address1 ?? '',
    address2: address.address2 ?? '',
    city: address.city ?? '',
    state: address.state ?? '',
    zip: address.zip ?? '',
    country: address.country ?? '',
    countryCode: address.country_code ?? '',
    phone: address.phone ?? '',
  };
}
