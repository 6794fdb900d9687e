import type { Queryable } from '../../platform/postgres.ts';
import { endpointKeyOf, type LaneRef, laneKeyOf } from './lane.ts';

/** Commits notify `webhooks_due_<schema>`. */
export const DUE_CHANNEL_PREFIX = 'webhooks_due_';

/** PostgreSQL takes 8,000 bytes; more lanes than this are announced as "look at all". */
const MAX_LANES = 150;
const CHANGED = '!';
const RESET = '~';

/** What is heard: lanes by their keys, or none for all of them. */
export interface Announcement {
  readonly keys: readonly string[];
  /** The lanes themselves are not what they were: another endpoint, opened, closed. */
  readonly isChange: boolean;
  /** This, and nothing else: nothing is held against the endpoint any more. */
  readonly reset?: { readonly shopId: bigint; readonly endpointId: bigint };
}

/**
 * Tells every process, once the transaction commits, that something of the lanes is due, or that
 * they were changed.
 */
export async function announce(
  tx: Queryable,
  lanes: readonly LaneRef[],
  o: { isChange: boolean },
): Promise<void> {
  if (lanes.length === 0) return;
  const keys = lanes.length > MAX_LANES ? '' : lanes.map(laneKeyOf).join(',');
  await notify(tx, (o.isChange ? CHANGED : '') + keys);
}

/** Tells every process, once the transaction commits, that a person has seen to the endpoint. */
export async function announceReset(
  tx: Queryable,
  endpoint: { shopId: bigint; endpointId: bigint },
): Promise<void> {
  await notify(tx, RESET + endpointKeyOf(endpoint));
}

async function notify(tx: Queryable, payload: string): Promise<void> {
  await tx.query({
    name: 'announce',
    text: 'select pg_notify($1 || current_schema(), $2)',
    values: [DUE_CHANNEL_PREFIX, payload],
  });
}

export function parseAnnouncement(payload: string): Announcement {
  if (payload.startsWith(RESET)) {
    const [shopId = '', endpointId = ''] = payload.slice(RESET.length).split(':');
    const reset = { shopId: BigInt(shopId), endpointId: BigInt(endpointId) };
    return { isChange: true, keys: [], reset };
  }
  const isChange = payload.startsWith(CHANGED);
  const text = isChange ? payload.slice(CHANGED.length) : payload;
  return { isChange, keys: text === '' ? [] : text.split(',') };
}
