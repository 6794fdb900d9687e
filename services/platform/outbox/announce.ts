import type pg from 'pg';

/** Relays of other processes listen to `outbox_<schema>`. */
export const CHANNEL_PREFIX = 'outbox_';
export const NOTIFY = `select pg_notify($1 || current_schema(), '')`;

/** Called with the shards that a commit appended to; returns those that it relays itself. */
export type CommitListener = (shards: readonly number[]) => readonly number[];

/** The relays of this process, by the pool whose commits they relay. */
const listeners = new WeakMap<pg.Pool, Set<CommitListener>>();
/** Pools whose notification is under way, and whether there were commits since. */
const notifying = new WeakMap<pg.Pool, { again: boolean }>();

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
  if (shards.every((shard) => heard.has(shard))) return;
  const underWay = notifying.get(pool);
  if (underWay) underWay.again = true;
  else notify(pool).catch(() => {});
}

async function notify(pool: pg.Pool): Promise<void> {
  const state = { again: true };
  notifying.set(pool, state);
  try {
    while (state.again) {
      state.again = false;
      await pool.query(NOTIFY, [CHANNEL_PREFIX]);
    }
  } finally {
    notifying.delete(pool);
  }
}
