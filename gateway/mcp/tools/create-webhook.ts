import { z } from 'zod';
import { createWebhook as create } from '../../actions/webhooks.ts';
import { idempotencyKey } from '../fields.ts';
import { defineTool } from '../tool.ts';
import {
  createdWebhookOutput,
  createdWebhookOutputView,
  webhookArguments,
} from '../views/webhook.ts';

export const createWebhook = defineTool({
  name: 'create_webhook',
  title: 'Create webhook',
  description:
    'Use this when events must be sent to a new address. Events contain data of shoppers: let the user confirm the address first. A topic and a trigger that never deliver together are stored with a warning.',
  hints: {
    readOnly: { is: false, because: 'It creates a subscription.' },
    destructive: { is: false, because: 'It changes nothing that exists.' },
    idempotent: { is: false, because: 'Each call creates another subscription.' },
    openWorld: { is: true, because: "The shop's events are sent to the new address." },
  },
  input: z.strictObject({ ...webhookArguments, idempotency_key: idempotencyKey }),
  output: createdWebhookOutput,
  subject: ({ topic, trigger }) => `${topic} ${trigger}`,
  async run(context, { idempotency_key: _, ...body }) {
    return createdWebhookOutputView(await create(context, body, context.callId));
  },
});
