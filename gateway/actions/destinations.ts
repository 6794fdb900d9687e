import type { Message } from '@bufbuild/protobuf';
import {
  type CreateDestinationResponse,
  type Destination,
  DestinationType,
  DestinationTypeSchema,
  type UpdateDestinationResponse,
} from '../../proto/gen/rms/destinations/v1/destinations_pb.ts';
import type { Address } from '../../proto/gen/rms/returns/v1/address_pb.ts';
import type { DestinationBody } from '../../services/contract/resources/destination.ts';
import { enumText } from '../../services/platform/values/enum-text.ts';
import { changesOf } from '../tenancy/field-change.ts';
import { type ActionContext, callerOf, sent } from './context.ts';

/** The address in the body of a request. */
export type AddressBody = NonNullable<DestinationBody['address']>;

/** The fields of a proto message. All are required, so that the compiler finds a forgotten field. */
export type FieldsOf<M extends Message> = Omit<M, keyof Message>;

const TYPE = enumText(DestinationTypeSchema);

/** Returns the shop's destinations, ordered by id. */
export async function listDestinations(context: ActionContext): Promise<Destination[]> {
  const { destinations } = context.services;
  return (await destinations.listDestinations(callerOf(context))).destinations;
}

/** Returns a destination. Rejects with DESTINATION_NOT_FOUND when the shop has none with this id. */
export async function getDestination(
  context: ActionContext,
  destinationId: bigint,
): Promise<Destination> {
  const request = { ...callerOf(context), destinationId };
  const { destination } = await context.services.destinations.getDestination(request);
  return sent(destination, 'destination');
}

/**
 * Adds a destination. The service makes it a warehouse when the body has no `type`, and enables it when the body has no
 * `enabled`.
 *
 * @param idempotencyKey 1 to 200 characters; a repeat with the same key returns the first destination.
 */
export async function createDestination(
  context: ActionContext,
  { name, type, enabled, address }: DestinationBody,
  idempotencyKey: string,
): Promise<Destination> {
  const response = await context.services.destinations.createDestination({
    ...callerOf(context),
    idempotencyKey,
    name,
    type: type ? TYPE.fromText(type) : DestinationType.UNSPECIFIED,
    ...(typeof enabled === 'boolean' && { enabled }),
    ...(address && { address: addressOf(address) }),
  });
  noteDestination(context, response);
  return sent(response.destination, 'destination');
}

/** Changes a destination. Absent fields are not changed. An address replaces the whole stored address. */
export async function updateDestination(
  context: ActionContext,
  destinationId: bigint,
  body: DestinationBody,
  idempotencyKey = '',
): Promise<Destination> {
  const { name, type, enabled, address } = body;
  const response = await context.services.destinations.updateDestination({
    ...callerOf(context),
    destinationId,
    idempotencyKey,
    name,
    type: type ? TYPE.fromText(type) : DestinationType.UNSPECIFIED,
    ...(typeof enabled === 'boolean' && { enabled }),
    ...(address && { address: addressOf(address) }),
  });
  noteDestination(context, response);
  return sent(response.destination, 'destination');
}

/**
 * Notes the changed fields for the audit log; none for an update that changed nothing. The log gets no recipient and no
 * phone number, because they are personal data.
 */
export function noteDestination(
  { noteChanges }: ActionContext,
  response: CreateDestinationResponse | UpdateDestinationResponse,
): void {
  const to = response.destination;
  const isUpdate = response.$typeName === 'rms.destinations.v1.UpdateDestinationResponse';
  const from = isUpdate ? response.previous : undefined;
  if (isUpdate && !from) return;
  const both = (read: (one: Destination) => string) =>
    [from && read(from), to && read(to)] as const;
  noteChanges?.(
    changesOf({
      name: both(({ name }) => name),
      type: both(({ type }) => TYPE.toText(type)),
      enabled: both(({ enabled }) => String(enabled)),
      address: both(placeOf),
    }),
  );
}

function placeOf({ address }: Destination): string {
  if (!address) return '';
  const { company, address1, address2, city, state, zip, countryCode } = address;
  return [company, address1, address2, city, state, zip, countryCode]
    .filter((part) => part !== '')
    .join(', ');
}

/** Converts the address in a body. Absent parts are empty. */
export function addressOf(address: AddressBody): FieldsOf<Address> {
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
