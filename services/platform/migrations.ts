import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import type { Queryable } from './postgres.ts';
import { roleOf, type SchemaDefinition, schemaNamed } from './schemas.ts';

/** One numbered SQL file and its name in `schema_migrations`. */
export interface Migration {
  readonly name: string;
  readonly sha256: string;
  readonly text: string;
}

/** The migrations of a schema: the platform's, by capability, then its own; each in the order of their numbers. */
export async function migrationsOf(schema: SchemaDefinition): Promise<Migration[]> {
  const migrations: Migration[] = [];
  for (const capability of schema.capabilities) {
    const folder = new URL(`./migrations/${capability}/`, import.meta.url);
    migrations.push(...(await readMigrations(folder, `platform/${capability}/`)));
  }
  migrations.push(...(await readMigrations(schema.folder, '')));
  return migrations;
}

const FILE_NAME = /^\d{4}_[a-z0-9_]+\.sql$/;

async function readMigrations(folder: URL, prefix: string): Promise<Migration[]> {
  // A schema without migrations has no folder in git.
  if (!existsSync(folder)) return [];
  const files = (await readdir(folder)).filter((file) => file.endsWith('.sql')).sort();
  const numbers = new Set(files.map((file) => file.slice(0, 4)));
  if (numbers.size < files.length || !files.every((file) => FILE_NAME.test(file))) {
    throw new Error(`${folder.pathname}: migrations are named NNNN_words.sql, each number once`);
  }
  return Promise.all(
    files.map(async (file) => {
      const text = await readFile(new URL(file, folder), 'utf8');
      const sha256 = createHash('sha256').update(text).digest('hex');
      return { name: `${prefix}${file}`, sha256, text };
    }),
  );
}

/** The database has a migration that this code does not have, or has in another form. */
export class MigrationError extends Error {}

/**
 * Applies missing migrations, each file in its own transaction with the schema as search path, and reports each name.
 * The caller holds the advisory lock.
 *
 * Throws MigrationError when an applied file was edited since (migrations are forward only), or when newer code has
 * migrated the database.
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
    await client.query('insert into schema_migrations (name, sha256) values ($1, $2)', [
      migration.name,
      migration.sha256,
    ]);
    await client.query('commit');
  } catch (error) {
    await client.query('rollback');
    throw error;
  }
}

export interface SchemaState {
  readonly state: 'current' | 'older' | 'newer';
  /** Description for the log, one line. */
  readonly detail: string;
}

/**
 * Compares the schema in the database with the migrations in this code. The role of the schema's own process is enough.
 * `newer` also covers an applied file with other contents.
 */
export async function schemaState(pool: Queryable, schema: string): Promise<SchemaState> {
  const expected = await migrationsOf(schemaNamed(schema));
  const { missing, fault } = compare(schema, expected, await appliedIn(pool, schema));
  if (fault) return { state: 'newer', detail: fault };
  const [first] = missing;
  if (!first) return { state: 'current', detail: `schema ${schema} is current` };
  const detail = `schema ${schema} lacks ${missing.length} migration(s), first ${first.name}; run the migrate command`;
  return { state: 'older', detail };
}

function compare(
  schema: string,
  expected: readonly Migration[],
  applied: ReadonlyMap<string, string>,
): { missing: Migration[]; fault?: string } {
  const known = new Set(expected.map((migration) => migration.name));
  const unknown = [...applied.keys()].filter((name) => !known.has(name));
  const changed = expected.filter((m) => applied.has(m.name) && applied.get(m.name) !== m.sha256);
  const missing = expected.filter((migration) => !applied.has(migration.name));
  if (unknown.length > 0) {
    const names = unknown.join(', ');
    return { missing, fault: `schema ${schema} is newer than this code, which lacks ${names}` };
  }
  if (changed.length > 0) {
    const names = changed.map((migration) => migration.name).join(', ');
    return { missing, fault: `schema ${schema}: ${names} was changed after it was applied` };
  }
  return { missing };
}

/** No schema, no table or no right to read: the same as no applied migration. */
const NOT_MIGRATED = new Set(['3F000', '42P01', '42501']);

async function appliedIn(db: Queryable, schema: string): Promise<Map<string, string>> {
  try {
    const { rows } = await db.query<{ name: string; sha256: string }>(
      `select name, sha256 from ${pg.escapeIdentifier(schema)}.schema_migrations`,
    );
    return new Map(rows.map((row) => [row.name, row.sha256]));
  } catch (error) {
    if (error instanceof pg.DatabaseError && NOT_MIGRATED.has(error.code ?? '')) return new Map();
    throw error;
  }
}

/** Creates the schema's table of applied migrations. The process of the schema may only read it. */
export async function prepareMigrations(client: pg.ClientBase, schema: string): Promise<void> {
  const table = `${pg.escapeIdentifier(schema)}.schema_migrations`;
  await client.query(
    `create table if not exists ${table} (
       name       text primary key,
       sha256     text not null,
       applied_at timestamptz not null default now()
     )`,
  );
  const role = pg.escapeIdentifier(roleOf(schema));
  await client.query(`revoke insert, update, delete on ${table} from ${role}`);
}
