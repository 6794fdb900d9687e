import { z } from 'zod';
import { ADDRESS_TEXT_MAX, DESTINATION_NAME_MAX } from '../limits.ts';
import { DESTINATION_TYPES } from '../vocabulary.ts';
import { boolean, choice, requiredText, text, typed } from './fields.ts';

const part = () => text({ max: ADDRESS_TEXT_MAX, own: true }).nullish();

const addressBody = z
  .object(
    {
      name: part(),
      company: part(),
      address1: part(),
      address2: part(),
      city: part(),
      state: part(),
      zip: part(),
      country: part().meta({ description: 'Full name; filled from the code when absent' }),
      country_code: z
        .string({ error: typed('a string') })
        .regex(/^[A-Za-z]{2}$/, { error: 'must be two ASCII letters' })
        .nullish(),
      phone: part().meta({ description: 'Stored, never answered' }),
    },
    { error: typed('an object') },
  )
  .meta({ id: 'AddressBody' });

/**
 * Body of update destination. `name` is required; absent fields keep their values; an address replaces the whole
 * address.
 */
export const destinationBody = z
  .object({
    name: requiredText({ max: DESTINATION_NAME_MAX }),
    type: choice(DESTINATION_TYPES).nullish(),
    enabled: boolean().nullish(),
    address: addressBody.nullish().meta({ description: 'Replaces the whole address' }),
  })
  .meta({ id: 'DestinationBody' });
export type DestinationBody = z.infer<typeof destinationBody>;

/** Interface: Destination. Unknown address parts are empty texts; there is no phone. */
export const destination = z
  .object({
    id: z.int().min(1),
    type: z.enum(DESTINATION_TYPES),
    name: z.string(),
    enabled: z.boolean(),
    provider_location_id: z.int().nullable(),
    address: z
      .object({
        name: z.string(),
        company: z.string(),
        address1: z.string(),
        address2: z.string(),
        city: z.string(),
        state: z.string(),
        zip: z.string(),
        country: z.string(),
        country_code: z.string(),
      })
      .meta({ id: 'Address' }),
  })
  .meta({ id: 'Destination' });
export type DestinationObject = z.infer<typeof destination>;

export const destinationList = z
  .object({ destinations: z.array(destination).meta({ description: 'By ascending id' }) })
  .meta({ id: 'DestinationList' });
