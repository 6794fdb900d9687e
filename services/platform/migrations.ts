import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import type { Migration } from './migration-files.ts';
import { RELEASE } from './release.ts';
import { appliedIn, compare } from './schema-state.ts';
import { roleOf } from './schemas.ts';

/** This code cannot work with the schema, or a file failed. */
export class MigrationError extends Error {}

/**
 * Applies missing migrations, each file in its own transaction with the schema as search path, and reports each name.
 * The caller holds the advisory lock.
 *
 * A newer schema that fits this release is left as it is, so that the Job of a release also runs when it is rolled back.
 *
 * @throws MigrationError when an applied file was edited since (migrations are forward only), or when a newer release has
 *   migrated the database to something that this one cannot work with.
 */
export async function applyMigrations(
  client: pg.ClientBase,
  schema: string,
  o: {
    migrations: readonly Migration[];
    onApplied?: (name: string) => void;
    /** How long to wait for a table in use; five minutes by default. Milliseconds. */
    patienceMs?: number | undefined;
  },
): Promise<string[]> {
  const state = compare(schema, o.migrations, await appliedIn(client, schema));
  if (state.fault) throw new MigrationError(state.fault);
  for (const migration of state.missing) {
    await applyOne(client, schema, { migration, patienceMs: o.patienceMs ?? TABLE_PATIENCE_MS });
    o.onApplied?.(migration.name);
  }
  return state.missing.map((migration) => migration.name);
}

/**
 * All other work waits behind a migration that waits for a table, so it gives up soon and tries again. Milliseconds.
 */
const TABLE_WAIT_MS = 500;
const TABLE_PAUSE_MS = 500;
/** Longer than a backup of a small table or a long read. Milliseconds. */
const TABLE_PATIENCE_MS = 300_000;
const LOCK_NOT_AVAILABLE = '55P03';

/** @param patienceMs how long to wait for tables in use. */
async function applyOne(
  client: pg.ClientBase,
  schema: string,
  { migration, patienceMs }: { migration: Migration; patienceMs: number },
): Promise<void> {
  for (const end = performance.now() + patienceMs; ; await sleep(TABLE_PAUSE_MS)) {
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
 * Creates the schema's tables of applied migrations and of the release that migrated it. The process of the schema may
 * only read them.
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

/** Records that this release has migrated the schema. */
export async function recordRelease(client: pg.ClientBase, schema: string): Promise<void> {
  await client.query(
    `insert into ${pg.escapeIdentifier(schema)}.schema_release (release) values ($1)
     on conflict (is_only_row) do update set release = excluded.release, migrated_at = now()`,
    [RELEASE],
  );
}
