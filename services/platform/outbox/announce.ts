import { setTimeout as sleep } from 'node:timers/promises';
import type pg from 'pg';
import type { Queryable } from '../postgres.ts';

/** Relays of other processes listen to `outbox_<schema>`. */
export const CHANNEL_PREFIX = 'outbox_';

/** Relays read at most so often: more notifications would not be noticed earlier. Milliseconds. */
export const GAP_MS = 15;

/** Notifies the relays of all processes that events were appended to the shards. In a transaction: at its commit. */
export async function notifyRelays(db: Queryable, shards: Iterable<number>): Promise<void> {
  await db.query({
    name: 'outbox-notify',
    text: 'select pg_notify($1 || current_schema(), $2)',
    values: [CHANNEL_PREFIX, [...new Set(shards)].join()],
  });
}

/** The shards that a notification names. None means any: a release of before names none. */
export function shardsNotified(payload: string): number[] {
  return payload === '' ? [] : payload.split(',').map(Number);
}

/** Called with the shards that a commit appended to; returns those that it relays itself. */
export type CommitListener = (shards: readonly number[]) => readonly number[];

/** The relays of this process, by the pool whose commits they relay. */
const listeners = new WeakMap<pg.Pool, Set<CommitListener>>();
/** Pools whose notification is under way, and the shards that were appended to since. */
const notifying = new WeakMap<pg.Pool, Set<number>>();

/** Hears of the commits on a pool of this process until the returned function is called. */
export function hearCommits(pool: pg.Pool, listener: CommitListener): () => void {
  const all = listeners.get(pool) ?? new Set();
  listeners.set(pool, all.add(listener));
  return () => {
    all.delete(listener);
  };
}

/**
 * Wakes the relays of the shards: in this process directly, in another by a notification. That is
 * a statement of its own, outside the transaction: PostgreSQL lets only one commit with a
 * notification proceed at a time, its wait for the disk included. One is under way at most, and
 * stands for all commits during that time. One that is lost costs the time until the relay's next look.
 */
export function announceCommit(pool: pg.Pool, shards: readonly number[]): void {
  const heard = new Set<number>();
  for (const listener of listeners.get(pool) ?? []) {
    for (const shard of listener(shards)) heard.add(shard);
  }
  const elsewhere = shards.filter((shard) => !heard.has(shard));
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
