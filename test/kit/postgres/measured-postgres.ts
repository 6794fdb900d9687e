import { rmSync } from 'node:fs';
import type pg from 'pg';
import { startPostgres } from '../../../deploy/local/postgres/start.ts';
import { onCommit } from '../../../services/platform/outbox/notify.ts';
import { migrate } from '../../../services/platform/postgres/migrate.ts';
import { onlyRow } from '../../../services/platform/postgres/only-row.ts';
import { createPool } from '../../../services/platform/postgres/postgres.ts';
import { roleOf } from '../../../services/platform/postgres/schemas.ts';
import { countStatements, type Sent } from './counted-statements.ts';
import { temporaryFolder } from './temporary-folder.ts';

interface Counters {
  /** Transactions that wrote or locked rows, so that PostgreSQL also wrote their commit. */
  readonly commits: number;
  /** Rows of tables that were inserted, updated or deleted. */
  readonly rows: number;
  /** Without images of full pages. */
  readonly walBytes: number;
}

/** What some work cost PostgreSQL. */
interface Cost extends Counters {
  readonly statements: number;
  readonly roundTrips: number;
}

const READ = `
select pg_snapshot_xmax(pg_current_snapshot())::text::float8 as commits,
       (select sum(n_tup_ins + n_tup_upd + n_tup_del) from pg_stat_user_tables)::float8 as rows,
       (pg_current_wal_insert_lsn() - '0/0')::float8 as "walBytes"`;

/** Prevents writes of the server itself, whose time varies. */
const SETTINGS = {
  autovacuum: 'off',
  checkpoint_timeout: '1d',
  wal_level: 'minimal',
  max_wal_senders: '0',
};

/** A migrated PostgreSQL that only the caller uses, so that its counters are those of the caller's work. */
export async function startMeasuredPostgres() {
  const folder = temporaryFolder();
  const { url, ...postgres } = await startPostgres({ folder, durable: false, settings: SETTINGS });
  await migrate({ databaseUrl: url });
  const admin = createPool(url, { max: 1 });
  const pools: pg.Pool[] = [];
  const sent: Sent = { statements: [], roundTrips: 0 };
  const read = async (): Promise<Counters> => {
    await Promise.all(pools.map((pool) => pool.query('select pg_stat_force_next_flush()')));
    return onlyRow(await admin.query<Counters>(READ));
  };
  return {
    /** One connection as the role of a schema. */
    poolOf(schema: string): pg.Pool {
      const address = new URL(url);
      address.username = roleOf(schema);
      const pool = createPool(address.href, { max: 1 });
      countStatements(pool, sent);
      // As if a relay of this process owned all shards. The number of notifications to others depends on time.
      onCommit(pool, (shards) => shards);
      pools.push(pool);
      return pool;
    },
    async costOf(work: () => Promise<unknown>): Promise<Cost> {
      const before = await read();
      sent.statements.length = 0;
      sent.roundTrips = 0;
      await work();
      const client = { statements: sent.statements.length, roundTrips: sent.roundTrips };
      const after = await read();
      const commits = after.commits - before.commits;
      const rows = after.rows - before.rows;
      return { ...client, commits, rows, walBytes: after.walBytes - before.walBytes };
    },
    async stop(): Promise<void> {
      await Promise.all([admin, ...pools].map((pool) => pool.end()));
      await postgres.stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
