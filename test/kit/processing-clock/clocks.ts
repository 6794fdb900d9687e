import pg from 'pg';
import { createPool } from '../../../services/platform/postgres/postgres.ts';
import { advanceClock } from '../clock.ts';
import { createTestDatabase } from '../database.ts';

/** All clocks that a process sees. Time passes only by a call, besides the few seconds that the test takes. */
export interface Clocks {
  /** Its statements see the clock of the database, which {@link Clocks.step} sets. */
  readonly pool: pg.Pool;
  /** Time passes, by each clock. */
  pass(seconds: number): Promise<void>;
  /** Somebody sets the clock of the database ahead, or back. */
  step(seconds: number): Promise<void>;
  /** The clock of the database is right again. */
  undoSteps(): Promise<void>;
  /** Notes the state for {@link Clocks.rewind}. */
  mark(): Promise<void>;
  /**
   * The server is replaced by another one, which has lost all returns and whose ids are those at the mark. The caller
   * says whether it tells that it has another timeline.
   */
  rewind(tellsTimeline: boolean): Promise<void>;
  close(): Promise<void>;
}

interface Sequence {
  readonly name: string;
  readonly at: string;
  readonly isCalled: boolean;
}

/** Creates a database of the returns service whose functions for the present time can be shifted. */
export async function startClocks(): Promise<Clocks> {
  const db = await createTestDatabase('returns');
  const migrator = new pg.Client({ connectionString: db.migratorUrl });
  await migrator.connect();
  await migrator.query(`set role none;
    create schema shifted;
    create table shifted.clock (ahead_ms float8 not null);
    insert into shifted.clock values (0);
    create function shifted.now() returns timestamptz stable language sql
      as 'select pg_catalog.now() + ahead_ms * interval ''1 ms'' from shifted.clock';
    create function shifted.clock_timestamp() returns timestamptz volatile language sql
      as 'select pg_catalog.clock_timestamp() + ahead_ms * interval ''1 ms'' from shifted.clock';
    grant usage on schema shifted to public;
    grant select, update on shifted.clock to public;
    alter table returns.processing_jobs alter due_at set default shifted.now()`);
  const url = new URL(db.url);
  url.searchParams.set('options', '-c search_path=shifted,returns,pg_catalog');
  const pool = createPool(url.href, { max: 8 });
  const realNow = Date.now;
  let marked: Sequence[] = [];
  let passedMs = 0;
  let steppedMs = 0;
  Date.now = () => realNow() + passedMs;
  const shift = async () => {
    const aheadMs = passedMs + steppedMs;
    await pool.query('update shifted.clock set ahead_ms = $1', [aheadMs]);
  };
  return {
    pool,
    async pass(seconds) {
      passedMs += seconds * 1_000;
      advanceClock(seconds * 1_000);
      await shift();
    },
    async step(seconds) {
      steppedMs += seconds * 1_000;
      await shift();
    },
    async undoSteps() {
      steppedMs = 0;
      await shift();
    },
    async mark() {
      const { rows } = await migrator.query<Sequence>(
        `select format('%I.%I', schemaname, sequencename) as name, last_value is not null as "isCalled",
                coalesce(last_value, start_value) as at from pg_sequences where schemaname = 'returns'`,
      );
      marked = rows;
    },
    async rewind(tellsTimeline) {
      await migrator.query(
        'truncate returns.orders, returns.events, returns.timeline, returns.idempotency_keys cascade',
      );
      for (const { name, at, isCalled } of marked) {
        await migrator.query('select setval($1::regclass, $2, $3)', [name, at, isCalled]);
      }
      if (tellsTimeline) {
        await migrator.query('update returns.server_timeline set timeline = timeline + 1');
      }
      // No connection outlives its server.
      while (pool.totalCount > 0) (await pool.connect()).release(true);
    },
    async close() {
      Date.now = realNow;
      await migrator.end();
      await pool.end();
      await db.drop();
    },
  };
}
