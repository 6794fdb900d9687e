import { z } from 'zod';
import { ADDRESS_TEXT_MAX, DESTINATION_NAME_MAX } from '../../../services/contract/limits.ts';
import { destination } from '../../../services/contract/resources/destination.ts';
import {
  boolean,
  choice,
  id,
  requiredText,
  text,
  typed,
} from '../../../services/contract/resources/fields.ts';
import { destinationView } from '../../../services/contract/views/destination.ts';
import { DESTINATION_TYPES } from '../../../services/contract/vocabulary.ts';
import { blank } from '../../../services/platform/text.ts';
import { updateDestination as update } from '../../actions/destinations.ts';
import { idempotencyKey } from '../fields.ts';
import { asIn, listedAs } from '../result-schema.ts';
import { defineTool, ToolError } from '../tool.ts';

/** The schema of an address in the list of tools. All parts follow one rule, so the list has it once. */
const ADDRESS = {
  type: 'object',
  description:
    'Replaces the whole address: name, company, address1, address2, city, state, zip, country, country_code (two letters), phone',
  additionalProperties: { type: 'string', maxLength: ADDRESS_TEXT_MAX },
};

const part = () => text({ max: ADDRESS_TEXT_MAX }).optional();

export const updateDestination = defineTool({
  name: 'update_destination',
  title: 'Update destination',
  description:
    'Use this when a warehouse or donation centre must be renamed, moved, enabled or disabled for new returns. Omitted fields are not changed, but an address replaces the whole stored one: read it with list_destinations first.',
  hints: {
    readOnly: { is: false, because: 'It changes the destination.' },
    destructive: { is: true, because: 'The sent values replace the stored ones.' },
    idempotent: { is: true, because: 'A repeat with the same values changes nothing.' },
    openWorld: { is: false, because: 'It changes a record of this service.' },
  },
  input: z.strictObject({
    destination_id: id().describe('The id from list_destinations'),
    name: requiredText({ max: DESTINATION_NAME_MAX }).describe('Its new name, or the current one'),
    type: choice(DESTINATION_TYPES).optional(),
    enabled: boolean().optional().describe('Whether new returns may go there'),
    address: listedAs(
      ADDRESS,
      z.strictObject(
        {
          name: part(),
          company: part(),
          address1: part(),
          address2: part(),
          city: part(),
          state: part(),
          zip: part(),
          country: part().describe('Full name; when absent, the name of the country_code'),
          country_code: z
            .string({ error: typed('a string') })
            .regex(/^(?:[A-Za-z]{2})?$/, { error: 'must be two ASCII letters' })
            .optional(),
          phone: part().describe('Stored, but never returned'),
        },
        { error: typed('an object') },
      ),
    ).optional(),
    idempotency_key: idempotencyKey,
  }),
  output: z.strictObject({ destination: asIn('list_destinations', destination) }),
  subject: ({ destination_id }) => String(destination_id),
  async run(context, { destination_id, idempotency_key: _, ...body }) {
    if (body.address && Object.values(body.address).every((line) => blank(line ?? ''))) {
      throw new ToolError('address has no text. Omit it to keep the stored address.');
    }
    const changed = await update(context, BigInt(destination_id), body, context.callId);
    return { destination: destinationView(changed) };
  },
});
