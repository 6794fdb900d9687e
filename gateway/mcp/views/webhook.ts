import { z } from 'zod';
import type { Subscription } from '../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { webhook } from '../../../services/contract/resources/webhook.ts';
import { iso, textOrNull } from '../../../services/contract/views/values.ts';
import { webhookView } from '../../../services/contract/views/webhook.ts';

const when = () => z.string().nullable().meta({ format: 'date-time' });

/** A webhook and its delivery health. Never contains the secret. */
export const webhookHealth = z.strictObject({
  ...webhook.shape,
  delivers: z.boolean().describe('False when the topic and the trigger do not fit together'),
  failures: z.int().describe('Failed attempts since the last success'),
  failing_since: when(),
  disables_at: when().describe('When it is set inactive if failures go on'),
  inactive_since: when(),
  inactive_reason: z.string().nullable().describe('null when it was set inactive manually'),
  backlog: z
    .strictObject({
      count: z.int(),
      more: z.boolean().describe('There are more than were counted'),
      oldest_at: when(),
    })
    .nullable()
    .describe('Waiting and held deliveries; null when not requested'),
});

export function webhookHealthView(subscription: Subscription): z.output<typeof webhookHealth> {
  const { backlog } = subscription;
  return {
    ...webhookView(subscription),
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
