import { Code } from '@connectrpc/connect';
import { ErrorReason } from '../../../proto/gen/rms/common/v1/error_pb.ts';
import { DomainError } from '../../platform/values/errors.ts';

/**
 * The state of a delivery. It is `waiting`, or `held` while the subscription is inactive. It can end in four ways:
 *
 * - `delivered` and `exhausted` are decided after an attempt (`delivery/attempt/runner.ts`).
 * - `expired` means that it was held for 30 days (`delivery/queue/end-waiting.ts`).
 * - `dropped` has two causes: the subscription was deleted (`end-waiting.ts`), or an attempt found no body or no secret
 *   (`runner.ts`). After a deletion, the log shows `dropped` even before the end is stored (`stateOf` in `rows.ts`).
 */
export type DeliveryState = 'waiting' | 'held' | 'delivered' | 'exhausted' | 'expired' | 'dropped';

const WEBHOOK_ID_PREFIX = 'msg_';
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/** Returns the `webhook-id` of a delivery. Every retry and replay has the same one. */
export function webhookIdOf(id: string): string {
  return WEBHOOK_ID_PREFIX + id;
}

/** Returns the id of the delivery with this `webhook-id`; undefined for a malformed `webhook-id`. */
export function parseWebhookId(webhookId: string): string | undefined {
  if (!webhookId.startsWith(WEBHOOK_ID_PREFIX)) return undefined;
  const id = webhookId.slice(WEBHOOK_ID_PREFIX.length);
  return UUID.test(id) ? id : undefined;
}

export function deliveryNotFound(webhookId: string): DomainError {
  return new DomainError(
    Code.NotFound,
    ErrorReason.DELIVERY_NOT_FOUND,
    `delivery ${webhookId.slice(0, 100)} does not exist`,
  );
}
