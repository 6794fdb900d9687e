import { setTimeout as sleep } from 'node:timers/promises';
import type pg from 'pg';
import type { Queryable } from '../postgres/postgres.ts';

/** Prefix of the channel `outbox_<schema>`, to which the relays of other processes listen. */
export const CHANNEL_PREFIX = 'outbox_';

/**
 * Minimum time between two reads of a relay. So it is also the minimum time between two notifications. Milliseconds.
 */
export const GAP_MS = 15;

/**
 * Notifies the relays of all processes that these shards have new events. In a transaction, PostgreSQL sends the
 * notification at the commit.
 */
export async function notifyRelays(db: Queryable, shards: Iterable<number>): Promise<void> {
  await db.query({
    name: 'outbox-notify',
    text: 'select pg_notify($1 || current_schema(), $2)',
    values: [CHANNEL_PREFIX, [...new Set(shards)].join()],
  });
}

/**
 * Returns the shards in a notification. The list is empty when any shard may have new events: a new connection may have
 * missed notifications.
 */
export function shardsNotified(payload: string): number[] {
  return payload === '' ? [] : payload.split(',').map(Number);
}

/**
 * Called with the shards to which a transaction has committed events. Returns the shards that the relay of this process
 * owns.
 */
export type CommitListener = (shards: readonly number[]) => readonly number[];

/** The listeners of this process, by the pool on which events are committed. */
const listeners = new WeakMap<pg.Pool, Set<CommitListener>>();
/** Pools whose notification is in flight, each with the shards of commits since then. */
const notifying = new WeakMap<pg.Pool, Set<number>>();

/** Calls the listener for each commit on a pool of this process, until the returned function is called. */
export function onCommit(pool: pg.Pool, listener: CommitListener): () => void {
  const all = listeners.get(pool) ?? new Set();
  listeners.set(pool, all.add(listener));
  return () => {
    all.delete(listener);
  };
}

/**
 * Notifies the relays of the shards: that of this process by a call, those of other processes by a notification of
 * PostgreSQL.
 *
 * The notification is a separate statement after the transaction. PostgreSQL serializes commits that contain a
 * notification, including their wait for the disk. At most one notification is in flight, and the next one covers all
 * commits during that time. When a notification is lost, the events wait until the relay's next poll.
 */
export function notifyOfCommit(pool: pg.Pool, shards: readonly number[]): void {
  const notified = new Set<number>();
  for (const listener of listeners.get(pool) ?? []) {
    for (const shard of listener(shards)) notified.add(shard);
  }
  const elsewhere = shards.filter((shard) => !notified.has(shard));
  if (elsewhere.length === 0) return;
  const next = notifying.get(pool);
  if (next) for (const shard of elsewhere) next.add(shard);
  else notify(pool, elsewhere).catch(() => {});
}

async function notify(pool: pg.Pool, first: readonly number[]): Promise<void> {
  let shards = new Set(first);
  try {
    while (shards.size > 0) {
      const next = new Set<number>();
      notifying.set(pool, next);
      await Promise.all([notifyRelays(pool, shards), sleep(GAP_MS, undefined, { ref: false })]);
      shards = next;
    }
  } finally {
    notifying.delete(pool);
  }
}
