import {
  type Destination,
  DestinationType,
} from '../../../proto/gen/rms/destinations/v1/destinations_pb.ts';
import type { Address } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import type { DestinationObject } from '../resources/destination.ts';
import { idNumber } from './values.ts';

/** A destination in responses (interface: Destination). */
export function destinationView(destination: Destination): DestinationObject {
  return {
    id: Number(destination.id),
    type: destination.type === DestinationType.DONATE ? 'donate' : 'warehouse',
    name: destination.name,
    enabled: destination.enabled,
    provider_location_id: idNumber(destination.providerLocationId),
    address: addressView(destination.address),
  };
}

/** An address without its phone number, which no response contains. Unknown parts are empty texts. */
export function addressView(address: Address | undefined): DestinationObject['address'] {
  return {
    name: address?.name ?? '',
    company: address?.company ?? '',
    address1: address?.address1 ?? '',
    address2: address?.address2 ?? '',
    city: address?.city ?? '',
    state: address?.state ?? '',
    zip: address?.zip ?? '',
    country: address?.country ?? '',
    country_code: address?.countryCode ?? '',
  };
}
