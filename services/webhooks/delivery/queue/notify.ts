import type { Queryable } from '../../../platform/postgres.ts';
import { endpointKeyOf, type QueueRef, queueKeyOf } from './queue-ref.ts';

/** Commits notify `webhooks_due_<schema>`. */
export const DUE_CHANNEL_PREFIX = 'webhooks_due_';

/** A notification has 8,000 bytes at most. For more queues than this it means "all queues". */
const MAX_NOTIFIED_QUEUES = 150;
const CHANGED = '!';
const RESET = '~';

/** The content of a notification: the keys of queues, or no key for all queues. */
export interface QueueNotification {
  readonly keys: readonly string[];
  /** Whether the queues were opened, closed or moved to another endpoint. */
  readonly isChange: boolean;
  /** The endpoint whose health was reset. The notification then has no keys. */
  readonly reset?: { readonly shopId: bigint; readonly endpointId: bigint };
}

/** Notifies every process at the commit of the transaction that the queues have due work or have changed. */
export async function notifyDue(
  tx: Queryable,
  queues: readonly QueueRef[],
  o: { isChange: boolean },
): Promise<void> {
  if (queues.length === 0) return;
  const keys = queues.length > MAX_NOTIFIED_QUEUES ? '' : queues.map(queueKeyOf).join(',');
  await notify(tx, (o.isChange ? CHANGED : '') + keys);
}

/** Notifies every process at the commit of the transaction that a user has repaired the endpoint. */
export async function notifyReset(
  tx: Queryable,
  endpoint: { shopId: bigint; endpointId: bigint },
): Promise<void> {
  await notify(tx, RESET + endpointKeyOf(endpoint));
}

async function notify(tx: Queryable, payload: string): Promise<void> {
  await tx.query({
    name: 'notifyDue',
    text: 'select pg_notify($1 || current_schema(), $2)',
    values: [DUE_CHANNEL_PREFIX, payload],
  });
}

export function parseNotification(payload: string): QueueNotification {
  if (payload.startsWith(RESET)) {
    const [shopId = '', endpointId = ''] = payload.slice(RESET.length).split(':');
    const reset = { shopId: BigInt(shopId), endpointId: BigInt(endpointId) };
    return { isChange: true, keys: [], reset };
  }
  const isChange = payload.startsWith(CHANGED);
  const text = isChange ? payload.slice(CHANGED.length) : payload;
  return { isChange, keys: text === '' ? [] : text.split(',') };
}
