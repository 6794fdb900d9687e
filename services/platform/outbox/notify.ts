import { setTimeout as sleep } from 'node:timers/promises';
import type pg from 'pg';
import type { Queryable } from '../postgres.ts';

/** Relays of other processes listen to `outbox_<schema>`. */
export const CHANNEL_PREFIX = 'outbox_';

/** Minimum time between two reads of a relay, and so between two notifications. Milliseconds. */
export const GAP_MS = 15;

/** Notifies the relays of all processes that these shards have new events. In a transaction: at its commit. */
export async function notifyRelays(db: Queryable, shards: Iterable<number>): Promise<void> {
  await db.query({
    name: 'outbox-notify',
    text: 'select pg_notify($1 || current_schema(), $2)',
    values: [CHANNEL_PREFIX, [...new Set(shards)].join()],
  });
}

/** Returns the shards of a notification. Older releases send an empty list, which means any shard. */
export function shardsNotified(payload: string): number[] {
  return payload === '' ? [] : payload.split(',').map(Number);
}

/** Called with the shards of a commit. Returns the shards that the listener's own relay owns. */
export type CommitListener = (shards: readonly number[]) => readonly number[];

/** Listeners of this process, by the pool whose commits they relay. */
const listeners = new WeakMap<pg.Pool, Set<CommitListener>>();
/** Pools with a notification in flight. The value contains the shards of later commits. */
const notifying = new WeakMap<pg.Pool, Set<number>>();

/** Calls the listener for each commit on a pool of this process until the returned function is called. */
export function onCommit(pool: pg.Pool, listener: CommitListener): () => void {
  const all = listeners.get(pool) ?? new Set();
  listeners.set(pool, all.add(listener));
  return () => {
    all.delete(listener);
  };
}

/**
 * Notifies the relays of the shards: in this process by a call, in other processes by a notification. The notification
 * is a separate statement after the transaction, because PostgreSQL serialises commits with a notification, including
 * their wait for the disk. At most one notification is in flight, and the next one covers all commits during that time.
 * If a notification is lost, the events wait until the relay's next poll.
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
