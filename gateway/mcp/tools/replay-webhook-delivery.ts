import { z } from 'zod';
import { id, typed } from '../../../services/contract/resources/fields.ts';
import { replayDelivery } from '../../actions/deliveries.ts';
import { listedWithoutBounds, restriction } from '../argument-schema.ts';
import { idempotencyKey } from '../fields.ts';
import { asIn } from '../result-schema.ts';
import { defineTool } from '../tool.ts';
import { deliveryOutput, deliveryOutputView } from '../views/delivery.ts';

/**
 * The form of a delivery id. Other texts are not written to the audit log, which must not contain free text of callers.
 */
const DELIVERY_ID = /^msg_[\w-]+$/;
const DELIVERY_ID_MAX = 100;
const DELIVERY_ID_RULE = 'must be the id of a delivery, as list_webhook_deliveries returns it';

export const replayWebhookDelivery = defineTool({
  name: 'replay_webhook_delivery',
  title: 'Replay webhook delivery',
  description:
    'Use this when a delivery that has ended must be sent again, for example after its receiver was repaired. It has the same webhook-id and bytes, so a receiver that stores ids recognizes the repeat.',
  hints: {
    readOnly: { is: false, because: 'It sends the delivery again.' },
    destructive: { is: false, because: 'It changes and deletes nothing in this service.' },
    idempotent: {
      is: false,
      because: 'Each call after the delivery has ended sends it again.',
    },
    openWorld: { is: true, because: 'It sends data to a webhook endpoint.' },
  },
  input: z.strictObject({
    delivery_id: listedWithoutBounds(
      z
        .string({ error: typed('a string') })
        .max(DELIVERY_ID_MAX, { error: DELIVERY_ID_RULE })
        .regex(DELIVERY_ID, { error: DELIVERY_ID_RULE }),
    ).describe('Begins with msg_; list_webhook_deliveries returns it'),
    webhook_id: restriction(id().describe('The delivery must belong to this webhook')),
    idempotency_key: idempotencyKey,
  }),
  output: z.strictObject({ delivery: asIn('list_webhook_deliveries', deliveryOutput) }),
  subject: ({ delivery_id }) => delivery_id,
  async run(context, { delivery_id, webhook_id = 0 }) {
    const delivery = await replayDelivery(context, {
      subscriptionId: BigInt(webhook_id),
      deliveryId: delivery_id,
      idempotencyKey: context.callId,
    });
    return { delivery: deliveryOutputView(delivery, false) };
  },
});
