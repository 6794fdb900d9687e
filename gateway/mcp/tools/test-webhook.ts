import { z } from 'zod';
import { sendTest } from '../../actions/webhook-secrets.ts';
import { idempotencyKey, otherTrigger, webhookId } from '../fields.ts';
import { defineTool } from '../tool.ts';

export const testWebhook = defineTool({
  name: 'test_webhook',
  title: 'Send test event',
  description:
    'Use this when a webhook must be tried: it sends an event with sample data, of its own trigger or another that the topic delivers. list_webhook_deliveries shows what the receiver responded.',
  hints: {
    readOnly: { is: false, because: 'It sends a delivery.' },
    destructive: { is: false, because: 'It changes nothing that exists.' },
    idempotent: { is: false, because: 'Each call sends another event.' },
    openWorld: { is: true, because: 'It sends data to a webhook endpoint.' },
  },
  input: z.strictObject({
    webhook_id: webhookId,
    trigger: otherTrigger,
    idempotency_key: idempotencyKey,
  }),
  output: z.strictObject({ delivery_id: z.string(), trigger: z.string() }),
  subject: ({ webhook_id }) => String(webhook_id),
  async run(context, { webhook_id, trigger }) {
    const options = { trigger, idempotencyKey: context.callId };
    const delivery = await sendTest(context, BigInt(webhook_id), options);
    return { delivery_id: delivery.id, trigger: delivery.trigger };
  },
});
