import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import type { Migration } from './migration-files.ts';
import { RELEASE } from './release.ts';
import { appliedIn, compare } from './schema-state.ts';
import { roleOf } from './schemas.ts';

/** A migration failed, or this code cannot work with the schema. */
class MigrationError extends Error {}

/**
 * Applies missing migrations and reports their names. Each file has its own transaction, with the schema as search
 * path. The caller must hold the advisory lock.
 *
 * A newer schema that fits this release is not changed, so that the migration Job also works during a rollback.
 *
 * @throws MigrationError when an applied file was edited later (migrations are forward only), or when this release
 *   cannot work with the schema of a newer release.
 */
export async function applyMigrations(
  client: pg.ClientBase,
  schema: string,
  o: {
    migrations: readonly Migration[];
    onApplied?: (name: string) => void;
    /** How long a migration waits for a table that is in use; five minutes by default. Milliseconds. */
    tableTimeoutMs?: number | undefined;
  },
): Promise<string[]> {
  const state = compare(schema, o.migrations, await appliedIn(client, schema));
  if (state.conflict) throw new MigrationError(state.conflict);
  for (const migration of state.missing) {
    await applyOne(client, schema, {
      migration,
      tableTimeoutMs: o.tableTimeoutMs ?? TABLE_TIMEOUT_MS,
    });
    o.onApplied?.(migration.name);
  }
  return state.missing.map((migration) => migration.name);
}

/**
 * Maximum wait for a table in one try. While a migration waits for a table, all other statements on it wait behind the
 * migration. So it stops soon and tries again. Milliseconds.
 */
const TABLE_WAIT_MS = 500;
const TABLE_PAUSE_MS = 500;
/** Maximum time of all tries together. A backup of a small table or a long read takes less. Milliseconds. */
const TABLE_TIMEOUT_MS = 300_000;
const LOCK_NOT_AVAILABLE = '55P03';

/** Applies one migration. @param tableTimeoutMs how long it waits for tables that are in use. */
async function applyOne(
  client: pg.ClientBase,
  schema: string,
  { migration, tableTimeoutMs }: { migration: Migration; tableTimeoutMs: number },
): Promise<void> {
  for (const end = performance.now() + tableTimeoutMs; ; await sleep(TABLE_PAUSE_MS)) {
    try {
      return await tryOne(client, schema, migration);
    } catch (error) {
      const isInUse = error instanceof pg.DatabaseError && error.code === LOCK_NOT_AVAILABLE;
      if (isInUse && performance.now() < end) continue;
      const reason = error instanceof Error ? error.message : String(error);
      throw new MigrationError(`${schema}: ${migration.name} failed: ${reason}`, { cause: error });
    }
  }
}

async function tryOne(client: pg.ClientBase, schema: string, migration: Migration): Promise<void> {
  await client.query('begin');
  try {
    await client.query(`set local search_path to ${pg.escapeIdentifier(schema)}`);
    await client.query(`set local lock_timeout = ${TABLE_WAIT_MS}`);
    await client.query(migration.text);
    await client.query('insert into schema_migrations (name, sha256, fits) values ($1, $2, $3)', [
      migration.name,
      migration.sha256,
      migration.fits,
    ]);
    await client.query('commit');
  } catch (error) {
    await client.query('rollback');
    throw error;
  }
}

/**
 * Creates two tables of the schema: the applied migrations, and the release that last migrated the schema. The process
 * of the schema may only read them.
 */
export async function prepareMigrations(client: pg.ClientBase, schema: string): Promise<void> {
  const name = pg.escapeIdentifier(schema);
  const role = pg.escapeIdentifier(roleOf(schema));
  await client.query(
    `create table if not exists ${name}.schema_migrations (
       name       text primary key,
       sha256     text not null,
       applied_at timestamptz not null default now()
     );
     alter table ${name}.schema_migrations add column if not exists fits text;
     create table if not exists ${name}.schema_release (
       is_only_row boolean primary key default true check (is_only_row),
       release     text not null,
       migrated_at timestamptz not null default now()
     );
     revoke insert, update, delete on ${name}.schema_migrations, ${name}.schema_release from ${role}`,
  );
}

/** Records that this release migrated the schema. */
export async function recordRelease(client: pg.ClientBase, schema: string): Promise<void> {
  await client.query(
    `insert into ${pg.escapeIdentifier(schema)}.schema_release (release) values ($1)
     on conflict (is_only_row) do update set release = excluded.release, migrated_at = now()`,
    [RELEASE],
  );
}
