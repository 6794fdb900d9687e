import { z } from 'zod';
import { WEBHOOK_URL_MAX } from '../../../services/contract/limits.ts';
import { choice, id, requiredText } from '../../../services/contract/resources/fields.ts';
import { TOPICS, TRIGGERS, WEBHOOK_STATUSES } from '../../../services/contract/vocabulary.ts';
import { updateWebhook as update } from '../../actions/webhooks.ts';
import { idempotencyKey } from '../fields.ts';
import { defineTool, ToolRefusal } from '../tool.ts';
import { webhookHealth, webhookHealthView } from '../views/webhook.ts';

export const updateWebhook = defineTool({
  name: 'update_webhook',
  title: 'Update webhook',
  description:
    'Use this when a webhook is to go to another address, get another event, or be switched on or off. Omitted fields are not changed. A new address gets the waiting deliveries, which contain data of shoppers: have the person confirm the address. When the webhook is switched on again, held deliveries are sent.',
  hints: {
    readOnly: { is: false, because: 'It changes the subscription.' },
    destructive: {
      is: true,
      because:
        'Given values replace the stored ones, and waiting deliveries go to the new address.',
    },
    idempotent: { is: true, because: 'The same values again change nothing.' },
    openWorld: { is: true, because: "It decides to which endpoint the shop's events are sent." },
  },
  input: z.strictObject({
    webhook_id: id().describe('As list_webhooks returns it'),
    topic: choice(TOPICS).optional().describe('Selects the form of the payload'),
    trigger: choice(TRIGGERS).optional().describe('Selects the event'),
    url: requiredText({ max: WEBHOOK_URL_MAX })
      .optional()
      .describe(
        'Absolute https address of a public host, without credentials and fragment; port 443, or one from 1024 up where no other service usually listens',
      ),
    status: choice(WEBHOOK_STATUSES).optional(),
    idempotency_key: idempotencyKey,
  }),
  output: z.strictObject({ webhook: webhookHealth }),
  subject: ({ webhook_id }) => String(webhook_id),
  async run(context, { webhook_id, idempotency_key: _, ...given }) {
    if (Object.values(given).every((value) => value === undefined)) {
      throw new ToolRefusal('Give at least one of topic, trigger, url and status.');
    }
    const changed = await update(context, BigInt(webhook_id), given, context.callId);
    return { webhook: webhookHealthView(changed) };
  },
});
