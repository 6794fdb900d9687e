import { z } from 'zod';
import type { Subscription } from '../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { webhookFields } from '../../../services/contract/resources/webhook.ts';
import { iso, textOrNull } from '../../../services/contract/views/values.ts';
import { webhookFieldsView } from '../../../services/contract/views/webhook.ts';

const when = () => z.string().nullable().meta({ format: 'date-time' });

/** A webhook and its delivery health. Never contains the secret. */
export const webhookHealth = z.strictObject({
  ...webhookFields.shape,
  delivers: z.boolean().describe('False if the topic never delivers this trigger'),
  failures: z.int().describe('Failed attempts since the last success'),
  failing_since: when(),
  disables_at: when().describe('When it becomes inactive if all attempts continue to fail'),
  inactive_since: when(),
  inactive_reason: z.string().nullable().describe('null when a user or operator deactivated it'),
  backlog: z
    .strictObject({
      count: z.int(),
      more: z.boolean().describe('True if there are more than count'),
      oldest_at: when(),
    })
    .nullable()
    .describe('Waiting and held deliveries; null without detail full'),
});

export function webhookHealthView(subscription: Subscription): z.output<typeof webhookHealth> {
  const { backlog } = subscription;
  return {
    ...webhookFieldsView(subscription),
    delivers: subscription.delivers,
    failures: subscription.failures,
    failing_since: iso(subscription.failingSince),
    disables_at: iso(subscription.disablesAt),
    inactive_since: iso(subscription.inactiveSince),
    inactive_reason: textOrNull(subscription.inactiveReason),
    backlog: backlog
      ? { count: backlog.count, more: backlog.more, oldest_at: iso(backlog.oldestAt) }
      : null,
  };
}
