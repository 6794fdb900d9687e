import { z } from 'zod';
import { choice, id } from '../../../services/contract/resources/fields.ts';
import { textOrNull } from '../../../services/contract/views/values.ts';
import { DELIVERY_STATES } from '../../../services/contract/vocabulary.ts';
import { listDeliveries } from '../../actions/deliveries.ts';
import { cursor, detail, limit, nextCursor, otherTrigger, time } from '../fields.ts';
import { defineTool, readOnlyHints } from '../tool.ts';
import { deliveryOutput, deliveryOutputView } from '../views/delivery.ts';

export const listWebhookDeliveries = defineTool({
  name: 'list_webhook_deliveries',
  title: 'List webhook deliveries',
  description:
    'Use this when you need to know what was sent to a webhook in the last 30 days, which deliveries wait, and why deliveries fail. The newest event comes first. Detail full adds every attempt.',
  hints: readOnlyHints('the log of deliveries'),
  input: z.strictObject({
    webhook_id: id().optional().describe('All webhooks when absent'),
    state: choice(DELIVERY_STATES)
      .optional()
      .describe('exhausted: all attempts failed; held: the webhook is inactive'),
    trigger: otherTrigger,
    return_id: id().optional().describe('Only events of this return'),
    from: time('Only events at or after this time').optional(),
    to: time('Only events before this time').optional(),
    detail,
    limit,
    cursor,
  }),
  output: z.strictObject({
    deliveries: z.array(deliveryOutput),
    next_cursor: nextCursor.describe(
      'null on the last page. Any page may have fewer entries than limit',
    ),
  }),
  async run(context, input) {
    const { webhook_id = 0, return_id = 0, state, trigger, from, to } = input;
    const page = await listDeliveries(context, BigInt(webhook_id), {
      state,
      trigger,
      from,
      to,
      returnId: BigInt(return_id),
      limit: input.limit,
      cursor: input.cursor ?? '',
    });
    const isFull = input.detail === 'full';
    return {
      deliveries: page.deliveries.map((one) => deliveryOutputView(one, isFull)),
      next_cursor: textOrNull(page.nextCursor),
    };
  },
});
