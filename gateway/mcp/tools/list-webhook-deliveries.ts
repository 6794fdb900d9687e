import { z } from 'zod';
import type { Delivery } from '../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { choice, id } from '../../../services/contract/resources/fields.ts';
import { textOrNull } from '../../../services/contract/views/values.ts';
import { DELIVERY_STATES } from '../../../services/contract/vocabulary.ts';
import { listDeliveries } from '../../actions/deliveries.ts';
import { cursor, detail, limit, nextCursor, otherTrigger, time } from '../fields.ts';
import { firstThatFits, type PageForm } from '../page-weight.ts';
import { defineTool, readOnlyHints } from '../tool.ts';
import { deliveryOutput, deliveryOutputView } from '../views/delivery.ts';

const NARROWER = 'For more, request fewer deliveries with limit.';
const LAST_NOTE = `Only the last attempt of each delivery is here, because the page with all is too long. ${NARROWER}`;
const SUMMARY_NOTE = `These are summary rows, because the page with detail full is too long. ${NARROWER}`;

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
    note: z.string().nullable(),
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
    const summary = page.deliveries.map((one) => deliveryOutputView(one, false));
    const { rows, note } =
      input.detail === 'full' ? fullRows(page.deliveries, summary) : { rows: summary, note: null };
    return { deliveries: [...rows], note, next_cursor: textOrNull(page.nextCursor) };
  },
});

type Row = z.output<typeof deliveryOutput>;

/** The rows with all attempts, or in a shorter form when the page would be too long for an assistant. */
function fullRows(deliveries: readonly Delivery[], summary: readonly Row[]): PageForm<Row> {
  const full = deliveries.map((one) => deliveryOutputView(one, true));
  const last = full.map((row) => ({ ...row, attempts: row.attempts?.slice(-1) }));
  return firstThatFits({ rows: full, note: null }, [
    { rows: last, note: LAST_NOTE },
    { rows: summary, note: SUMMARY_NOTE },
  ]);
}
