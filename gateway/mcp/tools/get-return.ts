import { z } from 'zod';
import type { Return } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import {
  returnDetails,
  returnDetailsView,
} from '../../../services/contract/details/return-details.ts';
import { SHORT_TEXT_MAX } from '../../../services/contract/limits.ts';
import type { DetailsSelector } from '../../../services/contract/resources/details-query.ts';
import { id, requiredText } from '../../../services/contract/resources/fields.ts';
import { findReturn } from '../../actions/returns.ts';
import { detail, returnId, UNTRUSTED } from '../fields.ts';
import { described } from '../result-schema.ts';
import { defineTool, readOnlyHints, type ToolContext, ToolError } from '../tool.ts';
import { returnLine, returnLinesView } from '../views/return-lines.ts';
import { returnSummary, returnSummaryView } from '../views/return-summary.ts';

const ONE_SELECTOR = 'Give exactly one of return_id, order_id, order_name and provider_order_id.';

export const getReturn = defineTool({
  name: 'get_return',
  title: 'Get return',
  description:
    'Use this when you need one return. Give exactly one id or the order name. If an order has several returns, you get the newest. Start with detail summary. Detail full adds the e-mail address, labels, amounts and exchanges.',
  hints: readOnlyHints('one return'),
  input: z.strictObject({
    return_id: returnId.optional(),
    order_id: id().optional().describe("The order's id in this service"),
    order_name: requiredText({ max: SHORT_TEXT_MAX })
      .optional()
      .describe('The order as the shopper knows it, such as #1001'),
    provider_order_id: id().optional().describe("The order's id at the commerce platform"),
    detail,
  }),
  output: z.strictObject({
    return: described(
      'As search_returns returns it with detail full',
      returnSummary.extend({ lines: z.array(returnLine) }),
    ).optional(),
    destination_name: z.string().nullable().optional(),
    untrusted_details: described(
      `With detail full, instead of return: all fields of the REST API. ${UNTRUSTED}`,
      returnDetails,
    ).optional(),
  }),
  async run(context, input) {
    const ret = await findReturn(context, selectorOf(input));
    if (input.detail === 'full') return fullView(context, ret);
    const summary = await returnSummaryView(context, ret);
    return { return: { ...summary, lines: returnLinesView(ret) } };
  },
});

async function fullView(context: ToolContext, ret: Return) {
  return {
    destination_name: await context.destinationNames(context, ret.destinationId),
    untrusted_details: returnDetailsView(ret),
  };
}

function selectorOf(o: {
  return_id?: number | undefined;
  order_id?: number | undefined;
  order_name?: string | undefined;
  provider_order_id?: number | undefined;
}): DetailsSelector {
  const selectors: DetailsSelector[] = [];
  if (o.return_id !== undefined) selectors.push({ case: 'returnId', value: BigInt(o.return_id) });
  if (o.order_id !== undefined) selectors.push({ case: 'orderId', value: BigInt(o.order_id) });
  if (o.order_name !== undefined) selectors.push({ case: 'orderName', value: o.order_name });
  if (o.provider_order_id !== undefined) {
    selectors.push({ case: 'providerOrderId', value: BigInt(o.provider_order_id) });
  }
  const [selector, second] = selectors;
  if (!selector || second) throw new ToolError(ONE_SELECTOR);
  return selector;
}
