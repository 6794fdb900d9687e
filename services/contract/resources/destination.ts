import { z } from 'zod';
import { ADDRESS_TEXT_MAX, DESTINATION_NAME_MAX } from '../limits.ts';
import { DESTINATION_TYPES } from '../vocabulary.ts';
import { boolean, choice, requiredText, text, typed } from './fields.ts';
import { id, means, nullableId } from './response-fields.ts';

const part = (what: string) =>
  text({ max: ADDRESS_TEXT_MAX, own: true })
    .nullish()
    .meta({ description: `${what}; empty when absent` });

/** The parts of an address that requests and responses share. */
const PARTS = {
  name: 'Recipient',
  company: 'Company',
  address1: 'Street and number',
  address2: 'Second line, such as a floor or a unit',
  city: 'City',
  state: 'State or province',
  zip: 'Postal code',
} as const;

export const addressBody = z
  .object(
    {
      name: part(PARTS.name),
      company: part(PARTS.company),
      address1: part(PARTS.address1),
      address2: part(PARTS.address2),
      city: part(PARTS.city),
      state: part(PARTS.state),
      zip: part(PARTS.zip),
      country: part('').meta({
        description: 'Full name of the country; when absent, that of `country_code`',
      }),
      country_code: z
        .string({ error: typed('a string') })
        // Responses have an empty text for an unknown country, and clients send back what they read.
        .regex(/^(?:[A-Za-z]{2})?$/, { error: 'must be two ASCII letters' })
        .nullish()
        .meta({
          description:
            'ISO 3166 code of the country, two letters in any case, or empty; empty when absent',
        }),
      phone: part('').meta({
        description: 'Phone number for carriers. It is stored, and no response has it',
      }),
    },
    { error: typed('an object') },
  )
  .meta({ id: 'AddressBody' });

const TYPE = '`warehouse`, or `donate` for a donation centre';
const ENABLED = 'Whether new returns may be sent there';

/**
 * Body of update destination. `name` is required. Absent fields keep their values. An address replaces the whole stored
 * address.
 */
export const destinationBody = z
  .object({
    name: requiredText({ max: DESTINATION_NAME_MAX }).meta({
      description: 'Name for people; required, also when it stays the same',
    }),
    type: choice(DESTINATION_TYPES)
      .nullish()
      .meta({ description: `${TYPE}; unchanged when absent` }),
    enabled: boolean()
      .nullish()
      .meta({ description: `${ENABLED}; unchanged when absent` }),
    address: addressBody.nullish().meta({
      description:
        'Replaces the whole address, also the parts that it lacks; unchanged when absent',
    }),
  })
  .meta({ id: 'DestinationBody' });
export type DestinationBody = z.infer<typeof destinationBody>;

const known = (what: string) => means(z.string(), `${what}; empty when unknown`);
/** An address in responses and payloads. */
export const destinationAddress = z
  .object({
    name: known(PARTS.name),
    company: known(PARTS.company),
    address1: known(PARTS.address1),
    address2: known(PARTS.address2),
    city: known(PARTS.city),
    state: known(PARTS.state),
    zip: known(PARTS.zip),
    country: known('Full name of the country'),
    country_code: known('ISO 3166 code of the country, two upper-case letters'),
  })
  .meta({ id: 'Address' });

/**
 * A destination in responses (interface: Destination). Unknown parts of the address are empty texts. There is no phone
 * number.
 */
export const destination = z
  .object({
    id: means(id(), 'Identifier: `destination_id` of returns'),
    type: means(z.enum(DESTINATION_TYPES), TYPE),
    name: means(z.string(), 'Name for people'),
    enabled: means(z.boolean(), ENABLED),
    provider_location_id: means(
      nullableId(),
      'Identifier of the location at the commerce provider; null when none is linked',
    ),
    address: means(destinationAddress, 'Where the goods are sent'),
  })
  .meta({ id: 'Destination' });
export type DestinationObject = z.infer<typeof destination>;

export const destinationList = z
  .object({ destinations: z.array(destination).meta({ description: 'By ascending id' }) })
  .meta({ id: 'DestinationList' });
