import type pg from 'pg';
import { until } from '../until.ts';

/** Waits until no other connection to the database runs a statement. The server closes broken connections only then. */
export async function untilIdle(pool: pg.Pool): Promise<void> {
  await until(async () => {
    const { rowCount } = await pool.query(
      `select from pg_stat_activity
       where datname = current_database() and pid <> pg_backend_pid() and state <> 'idle'
         and backend_type = 'client backend'`,
    );
    return rowCount === 0;
  });
}
