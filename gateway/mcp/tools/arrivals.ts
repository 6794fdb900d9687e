import { z } from 'zod';
import type { ExpectedLine } from '../../../proto/gen/rms/returns/v1/arrivals_pb.ts';
import { id } from '../../../services/contract/resources/fields.ts';
import { textOrNull } from '../../../services/contract/views/values.ts';
import { listExpected } from '../../actions/arrivals.ts';
import { cursor, limit, nextCursor } from '../schema/fields.ts';
import { defineTool, readOnlyHints } from '../tool.ts';

const expectedLine = z.strictObject({
  return_id: z.int(),
  line_item_id: z.int(),
  sku: z.string().nullable(),
  expected_quantity: z.int(),
  arrived_quantity: z.int(),
});

function expectedLineView(line: ExpectedLine): z.output<typeof expectedLine> {
  return {
    return_id: Number(line.returnId),
    line_item_id: Number(line.lineItemId),
    sku: textOrNull(line.sku),
    expected_quantity: line.expectedQuantity,
    arrived_quantity: line.arrivedQuantity,
  };
}

export const listExpectedArrivals = defineTool({
  name: 'list_expected_arrivals',
  right: 'seeReturns',
  title: 'List expected arrivals',
  description: 'Use this when you need goods that have not arrived, oldest first.',
  hints: readOnlyHints('returns'),
  input: z.strictObject({
    destination_id: id().optional().describe('list_destinations returns it'),
    limit,
    cursor,
  }),
  output: z.strictObject({ expected: z.array(expectedLine), next_cursor: nextCursor }),
  sample: () => ({ limit: 10 }),
  costly: () => ({ limit: 50 }),
  async run(context, input) {
    const page = await listExpected(context, {
      destinationId: input.destination_id === undefined ? undefined : BigInt(input.destination_id),
      trackingNumber: '',
      orderName: '',
      sku: '',
      updatedSince: undefined,
      limit: input.limit,
      cursor: input.cursor ?? '',
    });
    return {
      expected: page.lines.map(expectedLineView),
      next_cursor: textOrNull(page.nextCursor),
    };
  },
});
