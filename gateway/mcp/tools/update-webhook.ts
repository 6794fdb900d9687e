import { z } from 'zod';
import { choice, id, requiredText } from '../../../services/contract/resources/fields.ts';
import { TOPICS, TRIGGERS, WEBHOOK_STATUSES } from '../../../services/contract/vocabulary.ts';
import { URL_MAX } from '../../../services/platform/text.ts';
import { updateWebhook as update } from '../../actions/webhooks.ts';
import { idempotencyKey } from '../fields.ts';
import { defineTool, ToolError } from '../tool.ts';
import { webhookHealth, webhookHealthView } from '../views/webhook.ts';

export const updateWebhook = defineTool({
  name: 'update_webhook',
  title: 'Update webhook',
  description:
    'Use this when a webhook must get another address or another event, or must be activated or deactivated. Omitted fields are not changed. A new address receives the waiting deliveries, which contain data of shoppers: let the user confirm the address first. When a webhook is activated again, its held deliveries are sent.',
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
    webhook_id: id().describe('The id from list_webhooks'),
    topic: choice(TOPICS).optional().describe('Selects the form of the payload'),
    trigger: choice(TRIGGERS).optional().describe('Selects the event'),
    url: requiredText({ max: URL_MAX })
      .optional()
      .describe(
        'Absolute https address of a public host, without credentials and fragment. The port is 443, or from 1024 up and not a usual port of another service',
      ),
    status: choice(WEBHOOK_STATUSES).optional(),
    idempotency_key: idempotencyKey,
  }),
  output: z.strictObject({ webhook: webhookHealth }),
  subject: ({ webhook_id }) => String(webhook_id),
  async run(context, { webhook_id, idempotency_key: _, ...changes }) {
    if (Object.values(changes).every((value) => value === undefined)) {
      throw new ToolError('Give at least one of topic, trigger, url and status.');
    }
    const changed = await update(context, BigInt(webhook_id), changes, context.callId);
    return { webhook: webhookHealthView(changed) };
  },
});
