import { z } from 'zod';
import { overlapHours } from '../../../services/contract/resources/webhook-secret.ts';
import { requiredIso } from '../../../services/contract/views/values.ts';
import { rotateSecret } from '../../actions/webhook-secrets.ts';
import { idempotencyKey, webhookId } from '../fields.ts';
import { defineTool } from '../tool.ts';
import { secretHint } from '../views/webhook.ts';

export const rotateWebhookSecret = defineTool({
  name: 'rotate_webhook_secret',
  title: 'Rotate webhook secret',
  description:
    'Use this when the signing secret of a webhook must be replaced. Earlier secrets sign, too, until the overlap ends; before that, the receiver must get the new one. The result never has the secret, but says where a person reads it.',
  hints: {
    readOnly: { is: false, because: 'It makes a new secret.' },
    destructive: { is: true, because: 'Earlier secrets end after the overlap.' },
    idempotent: { is: false, because: 'Each call makes another secret.' },
    openWorld: { is: false, because: 'It calls no other system.' },
  },
  input: z.strictObject({
    webhook_id: webhookId,
    overlap_hours: overlapHours().optional().describe('24 when omitted; 0 ends them immediately'),
    idempotency_key: idempotencyKey,
  }),
  output: z.strictObject({ created_at: z.string(), secret_hint: z.string() }),
  subject: ({ webhook_id }) => String(webhook_id),
  async run(context, { webhook_id, overlap_hours }) {
    const options = { overlapHours: overlap_hours, idempotencyKey: context.callId };
    const { createdAt } = await rotateSecret(context, BigInt(webhook_id), options);
    return {
      created_at: requiredIso(createdAt, 'a secret'),
      secret_hint: secretHint(webhook_id),
    };
  },
});
