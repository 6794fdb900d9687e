import type { MessageInitShape } from '@bufbuild/protobuf';
import type { ServiceImpl } from '@connectrpc/connect';
import {
  type Destination,
  DestinationTypeSchema,
} from '../../../proto/gen/rms/destinations/v1/destinations_pb.ts';
import type { PostalAddress } from '../../../proto/gen/rms/portal/v1/common_pb.ts';
import type {
  DestinationSchema,
  DestinationsService,
} from '../../../proto/gen/rms/portal/v1/destinations_pb.ts';
import type { Address } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { word } from '../../../services/contract/views/values.ts';
import { DESTINATION_TYPES } from '../../../services/contract/vocabulary.ts';
import {
  type AddressBody,
  createDestination,
  type FieldsOf,
  getDestination,
  listDestinations,
  updateDestination,
} from '../../actions/destinations.ts';
import { callOf } from '../call.ts';
import { idOf, keyOf, optionalWord } from '../fields.ts';

/** Manages the places to which returns are shipped. */
export function destinationsService(): ServiceImpl<typeof DestinationsService> {
  return {
    async listDestinations(_request, context) {
      const all = await listDestinations(callOf(context).context);
      return { destinations: all.map(destinationView) };
    },

    async getDestination({ destinationId }, context) {
      const id = idOf(destinationId, 'destination');
      return { destination: destinationView(await getDestination(callOf(context).context, id)) };
    },

    async createDestination(request, context) {
      const call = callOf(context);
      const created = await createDestination(
        call.context,
        bodyOf(request),
        keyOf(call, request.idempotencyKey),
      );
      return { destination: destinationView(created) };
    },

    async updateDestination(request, context) {
      const call = callOf(context);
      const updated = await updateDestination(
        call.context,
        idOf(request.destinationId, 'destination'),
        bodyOf(request),
        keyOf(call, request.idempotencyKey),
      );
      return { destination: destinationView(updated) };
    },
  };
}

interface Fields {
  readonly name: string;
  readonly type: string;
  readonly enabled?: boolean | undefined;
  readonly address?: PostalAddress | undefined;
}

function bodyOf({ name, type, enabled, address }: Fields) {
  return {
    name,
    type: optionalWord('type', type, DESTINATION_TYPES),
    ...(enabled !== undefined && { enabled }),
    ...(address && { address: bodyOfAddress(address) }),
  };
}

function destinationView(one: Destination): MessageInitShape<typeof DestinationSchema> {
  const { id, name, type, enabled, providerLocationId, address, updatedAt } = one;
  return {
    id: String(id),
    name,
    enabled,
    providerLocationId: String(providerLocationId),
    type: word(DestinationTypeSchema, type, DESTINATION_TYPES) ?? '',
    ...(address && { address: addressView(address) }),
    ...(updatedAt && { updatedAt }),
  };
}

// The return types tie the two addresses, the body and the stored address together: a field that only one of them has
// does not compile, here or in `addressOf` of the actions. Otherwise the page could show a field and not save it.

function addressView({ $typeName: _, ...fields }: Address): FieldsOf<PostalAddress> {
  return fields;
}

function bodyOfAddress({
  $typeName: _,
  $unknown: _unknown,
  countryCode,
  ...others
}: PostalAddress): Record<keyof AddressBody, string> {
  return { ...others, country_code: countryCode };
}
