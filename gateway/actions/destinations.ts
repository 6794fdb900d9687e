import {
  type Destination,
  DestinationType,
  DestinationTypeSchema,
} from '../../proto/gen/rms/destinations/v1/destinations_pb.ts';
import type { DestinationBody } from '../../services/contract/resources/destination.ts';
import { enumText } from '../../services/platform/enum-text.ts';
import { type ActionContext, callerOf, sent } from './context.ts';

const TYPE = enumText(DestinationTypeSchema);

/** The shop's destinations, ordered by id. */
export async function listDestinations(context: ActionContext): Promise<Destination[]> {
  const { destinations } = context.services;
  return (await destinations.listDestinations(callerOf(context))).destinations;
}

/** Changes a destination. Absent fields are not changed. An address replaces the whole stored address. */
export async function updateDestination(
  context: ActionContext,
  destinationId: bigint,
  body: DestinationBody,
): Promise<Destination> {
  const { name, type, enabled, address } = body;
  const answer = await context.services.destinations.updateDestination({
    ...callerOf(context),
    destinationId,
    name,
    type: type ? TYPE.fromText(type) : DestinationType.UNSPECIFIED,
    ...(typeof enabled === 'boolean' && { enabled }),
    ...(address && { address: addressOf(address) }),
  });
  return sent(answer.destination, 'destination');
}

/** Whether a destination already has the values of a change. */
export function matchesChange(now: Destination, body: DestinationBody): boolean {
  const { name, type, enabled, address } = body;
  return (
    now.name === name &&
    (!type || now.type === TYPE.fromText(type)) &&
    (typeof enabled !== 'boolean' || now.enabled === enabled) &&
    (!address || isAddress(now.address, addressOf(address)))
  );
}

/** The service stores country codes in upper case, and fills in the country name from the code. */
function isAddress(now: Destination['address'], wanted: ReturnType<typeof addressOf>): boolean {
  const { countryCode, country, ...texts } = wanted;
  if (!now || now.countryCode !== countryCode.toUpperCase()) return false;
  if (country !== '' && now.country !== country) return false;
  return Object.entries(texts).every(([name, text]) => Reflect.get(now, name) === text);
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
