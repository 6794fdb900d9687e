import type { Queryable } from '../../../platform/postgres/postgres.ts';
import { endpointKeyOf, type QueueRef, queueKeyOf } from './queue-ref.ts';

/**
 * Prefix of the channel `webhooks_due_<schema>`. A transaction with due deliveries sends a notification on this channel
 * when it commits.
 */
export const DUE_CHANNEL_PREFIX = 'webhooks_due_';

/**
 * Maximum number of queues in a notification, which has at most 8,000 bytes. For more queues, the notification means
 * "all queues".
 */
const MAX_NOTIFIED_QUEUES = 150;
const CHANGED = '!';
const RESET = '~';
/** Suffix of the endpoint's key. */
const PROBE = ':probe';

/** The content of a notification: keys of queues, or none when it is about all queues. */
export interface QueueNotification {
  readonly keys: readonly string[];
  /** True when the queues were opened, closed or moved to another endpoint. */
  readonly isChange: boolean;
  /** The endpoint whose health was reset. The notification then has no keys. */
  readonly reset?: EndpointRef;
  /** The endpoint whose next probe is due. The notification then has no keys. */
  readonly probe?: EndpointRef;
}

interface EndpointRef {
  readonly shopId: bigint;
  readonly endpointId: bigint;
}

/**
 * Tells every process that these queues have due work or have changed. PostgreSQL sends the notification at the commit.
 */
export async function notifyDue(
  tx: Queryable,
  queues: readonly QueueRef[],
  o: { isChange: boolean },
): Promise<void> {
  if (queues.length === 0) return;
  const keys = queues.length > MAX_NOTIFIED_QUEUES ? '' : queues.map(queueKeyOf).join(',');
  await notify(tx, (o.isChange ? CHANGED : '') + keys);
}

/** Tells every process that a user has repaired the endpoint. PostgreSQL sends the notification at the commit. */
export async function notifyReset(tx: Queryable, endpoint: EndpointRef): Promise<void> {
  await notify(tx, RESET + endpointKeyOf(endpoint));
}

/**
 * Tells every process that the next probe of an open circuit is due. PostgreSQL sends the notification at the commit.
 */
export async function notifyProbe(tx: Queryable, endpoint: EndpointRef): Promise<void> {
  await notify(tx, RESET + endpointKeyOf(endpoint) + PROBE);
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
    const endpoint = { shopId: BigInt(shopId), endpointId: BigInt(endpointId) };
    const about = payload.endsWith(PROBE) ? { probe: endpoint } : { reset: endpoint };
    return { isChange: true, keys: [], ...about };
  }
  const isChange = payload.startsWith(CHANGED);
  const text = isChange ? payload.slice(CHANGED.length) : payload;
  return { isChange, keys: text === '' ? [] : text.split(',') };
}
