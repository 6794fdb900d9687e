import { z } from 'zod';
import { destination } from '../../../services/contract/resources/destination.ts';
import { destinationView } from '../../../services/contract/views/destination.ts';
import { listDestinations as list } from '../../actions/destinations.ts';
import { cursor, detail, limit, nextCursor } from '../fields.ts';
import { pageOf } from '../pages.ts';
import { undescribed } from '../result-schema.ts';
import { defineTool, readOnlyHints } from '../tool.ts';

const full = undescribed(destination.shape);

export const listDestinations = defineTool({
  name: 'list_destinations',
  title: 'List destinations',
  description:
    'Use this when you need the warehouses and donation centres that returns are shipped to, or the id of one by its name.',
  hints: readOnlyHints("the shop's destinations"),
  input: z.strictObject({ detail, limit, cursor }),
  output: z.strictObject({
    destinations: z.array(
      z.strictObject({
        id: full.id,
        name: full.name,
        type: full.type,
        enabled: full.enabled,
        city: z.string(),
        country_code: z.string(),
        provider_location_id: full.provider_location_id
          .optional()
          .describe('Only with detail full'),
        address: full.address.optional().describe('Only with detail full'),
      }),
    ),
    next_cursor: nextCursor,
  }),
  async run(context, input) {
    const page = pageOf('destinations', await list(context), input);
    const destinations = page.rows.map((row) => {
      const { address, provider_location_id, ...rest } = destinationView(row);
      const { city, country_code } = address;
      const more = input.detail === 'full' && { address, provider_location_id };
      return { ...rest, city, country_code, ...more };
    });
    return { destinations, next_cursor: page.nextCursor };
  },
});
