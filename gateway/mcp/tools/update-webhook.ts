import { z } from 'zod';
import { updateWebhook as update } from '../../actions/webhooks.ts';
import { idempotencyKey, otherTopic, otherTrigger, webhookId } from '../fields.ts';
import { asIn } from '../result-schema.ts';
import { defineTool, ToolError } from '../tool.ts';
import { webhookArguments, webhookHealth, webhookHealthView } from '../views/webhook.ts';

export const updateWebhook = defineTool({
  name: 'update_webhook',
  title: 'Update webhook',
  description:
    'Use this when a webhook must get another address or event, or must be activated or deactivated. Omitted fields are not changed. A new address receives the waiting deliveries, with data of shoppers: let the user confirm it first. Activating a webhook sends its held deliveries.',
  hints: {
    readOnly: { is: false, because: 'It changes the subscription.' },
    destructive: {
      is: true,
      because:
        'The sent values replace the stored ones, and waiting deliveries go to the new address.',
    },
    idempotent: { is: true, because: 'A repeat with the same values changes nothing.' },
    openWorld: { is: true, because: "The shop's events are sent to the new address." },
  },
  input: z.strictObject({
    webhook_id: webhookId,
    topic: otherTopic,
    trigger: otherTrigger,
    url: webhookArguments.url.optional(),
    status: webhookArguments.status,
    idempotency_key: idempotencyKey,
  }),
  output: z.strictObject({ webhook: asIn('list_webhooks', webhookHealth) }),
  subject: ({ webhook_id }) => String(webhook_id),
  async run(context, { webhook_id, idempotency_key: _, ...changes }) {
    if (Object.values(changes).every((value) => value === undefined)) {
      throw new ToolError('Give at least one of topic, trigger, url and status.');
    }
    const { subscription } = await update(context, BigInt(webhook_id), changes, context.callId);
    return { webhook: webhookHealthView(subscription) };
  },
});
