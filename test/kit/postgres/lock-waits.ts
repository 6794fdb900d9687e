import type { Queryable } from '../../../services/platform/postgres/postgres.ts';

/** Number of sessions of this database that wait for a lock of another session. */
export async function lockWaits(db: Queryable): Promise<number> {
  const { rows } = await db.query<{ waits: number }>(
    `select count(*)::int as waits from pg_stat_activity
      where datname = current_database() and wait_event_type = 'Lock'`,
  );
  return rows[0]?.waits ?? 0;
}
