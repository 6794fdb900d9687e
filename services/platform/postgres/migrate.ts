import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import pg from 'pg';
import { loadConfig, postgresUrl, processShape } from '../process/config.ts';
import { runCommand } from '../process/run-command.ts';
import { transportShape } from '../security/transport-security.ts';
import { DatabaseClient } from './database-client.ts';
import { type Migration, migrationsOf } from './migration-files.ts';
import { RELEASE } from './release.ts';
import { appliedIn, compare } from './schema-state.ts';
import { roleOf, SCHEMAS, type SchemaDefinition } from './schemas.ts';

/** Number of the advisory lock of migrations. No other lock of the database uses it. */
const MIGRATION_LOCK = 7_240_311_905n;
/** Maximum time that a second migrator waits for the first. Milliseconds. */
const LOCK_WAIT_MS = 120_000;

export interface MigrateOptions {
  /** URL of the database with the owner of the schemas as user: `rms_migrator` (with createrole), or a superuser. */
  readonly databaseUrl: string;
  /** New passwords of roles, by schema. A role without an entry keeps its password. */
  readonly passwords?: Readonly<Record<string, string>>;
  readonly schemas?: readonly SchemaDefinition[];
  readonly onApplied?: (schema: string, name: string) => void;
  /** How long a migration waits for a table that is in use; five minutes by default. Milliseconds. */
  readonly tableTimeoutMs?: number;
  /** How long to wait for a database that does not accept connections yet; by default 0. Milliseconds. */
  readonly databaseWaitMs?: number;
  /** Called once with the reason, when the wait for the database begins. */
  readonly onWait?: (reason: string) => void;
}

/**
 * Brings every schema to the state of this code. Creates the schema, and its role with rights and search path. Then
 * applies the migrations. May be repeated. Concurrent runs wait for each other.
 *
 * @throws MigrationError when the database is newer than this code and does not fit it, or when an applied file was
 *   changed.
 */
export async function migrate(o: MigrateOptions): Promise<number> {
  const client = await connect(o);
  try {
    await client.query(`set lock_timeout = ${LOCK_WAIT_MS}`);
    await client.query('select pg_advisory_lock($1)', [MIGRATION_LOCK]);
    await closeToPublic(client);
    let applied = 0;
    for (const schema of o.schemas ?? SCHEMAS) {
      await prepareSchema(client, schema.name, o.passwords?.[schema.name]);
      const migrations = await migrationsOf(schema);
      const onApplied = (name: string) => o.onApplied?.(schema.name, name);
      const names = await applyMigrations(client, schema.name, {
        migrations,
        onApplied,
        tableTimeoutMs: o.tableTimeoutMs,
      });
      await recordRelease(client, schema.name);
      applied += names.length;
    }
    return applied;
  } finally {
    await client.end();
  }
}

/** Pause between two attempts to connect. Milliseconds. */
const CONNECT_PAUSE_MS = 1_000;
/**
 * Error codes of a database that is starting, or whose name is not in DNS yet. Other errors, such as a wrong password,
 * fail immediately.
 */
const STARTING_CODES = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'ENOTFOUND',
  'EAI_AGAIN',
  'ETIMEDOUT',
  '57P03',
]);

const isObject = (value: unknown): value is object => typeof value === 'object' && value !== null;

/** Connects. Waits while the database is starting. */
async function connect(o: MigrateOptions): Promise<pg.Client> {
  const end = performance.now() + (o.databaseWaitMs ?? 0);
  for (let isFirst = true; ; isFirst = false) {
    const client = new DatabaseClient({
      connectionString: o.databaseUrl,
      application_name: 'migrate',
    });
    try {
      await client.connect();
      return client;
    } catch (error) {
      await client.end().catch(() => {});
      const code = isObject(error) && 'code' in error ? String(error.code) : '';
      if (!STARTING_CODES.has(code) || performance.now() >= end) throw error;
      if (isFirst) o.onWait?.(code);
      await sleep(CONNECT_PAUSE_MS);
    }
  }
}

/**
 * Revokes the rights of all other roles to connect to the database or to create objects in it. Does nothing when the
 * migrator does not own the database.
 */
async function closeToPublic(client: pg.Client): Promise<void> {
  const { rows } = await client.query<{ database: string; owns: boolean }>(
    `select current_database() as database, pg_has_role(datdba, 'usage') as owns
     from pg_database where datname = current_database()`,
  );
  const [row] = rows;
  if (!row?.owns) return;
  await client.query(`revoke all on database ${pg.escapeIdentifier(row.database)} from public`);
  await client.query('revoke all on schema public from public');
}

async function prepareSchema(client: pg.Client, name: string, password?: string): Promise<void> {
  const schema = pg.escapeIdentifier(name);
  const role = pg.escapeIdentifier(roleOf(name));
  await prepareRole(client, name);
  if (password !== undefined) {
    await client.query(`alter role ${role} password ${pg.escapeLiteral(password)}`);
  }
  await client.query(`create schema if not exists ${schema}`);
  await client.query(`grant usage on schema ${schema} to ${role}`);
  await grantConnect(client, role);
  // Grant these rights before the tables exist. So a migration can revoke some of them, for example for tables that are
  // insert-only.
  await client.query(
    `alter default privileges in schema ${schema} grant select, insert, update, delete on tables to ${role}`,
  );
  await client.query(
    `alter default privileges in schema ${schema} grant usage, select on sequences to ${role}`,
  );
  await prepareMigrations(client, name);
}

/**
 * Creates the role if it is missing. Roles belong to the whole server, so a run for another database may have created
 * it.
 */
async function prepareRole(client: pg.Client, schema: string): Promise<void> {
  const name = roleOf(schema);
  const { rows } = await client.query<{ rolconfig: string[] | null }>(
    'select rolconfig from pg_roles where rolname = $1',
    [name],
  );
  const role = pg.escapeIdentifier(name);
  if (rows.length === 0) await client.query(`create role ${role} login`);
  if (rows[0]?.rolconfig?.includes(`search_path=${schema}`)) return;
  await client.query(`alter role ${role} set search_path to ${pg.escapeIdentifier(schema)}`);
}

async function grantConnect(client: pg.Client, role: string): Promise<void> {
  const { rows } = await client.query<{ name: string }>('select current_database() as name');
  for (const { name } of rows) {
    await client.query(`grant connect on database ${pg.escapeIdentifier(name)} to ${role}`);
  }
}

/** Returns the passwords in the environment: `DB_PASSWORD_RETURNS=…` is that of `rms_returns`. */
function passwordsIn(env: NodeJS.ProcessEnv): Record<string, string> {
  const named = SCHEMAS.map(({ name }) => [name, env[`DB_PASSWORD_${name.toUpperCase()}`] ?? '']);
  return Object.fromEntries(named.filter(([, password]) => password !== ''));
}

/**
 * How long the command waits for the database. One that is installed together with the Job may need minutes.
 * Milliseconds.
 */
const DATABASE_WAIT_MS = 300_000;

/** Runs the command. `DATABASE_URL` has the database, and the migrator as user. */
async function main(env: NodeJS.ProcessEnv): Promise<string> {
  const config = loadConfig(
    { DATABASE_URL: postgresUrl, NODE_ENV: processShape.NODE_ENV, ...transportShape },
    env,
  );
  const applied = await migrate({
    databaseUrl: config.DATABASE_URL,
    passwords: passwordsIn(env),
    databaseWaitMs: DATABASE_WAIT_MS,
    onWait: (reason) => process.stdout.write(`waiting for the database (${reason})\n`),
    onApplied: (schema, name) => process.stdout.write(`${schema}: applied ${name}\n`),
  });
  return applied === 0 ? 'nothing to apply' : `${applied} migration(s) applied`;
}

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
async function applyMigrations(
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
async function prepareMigrations(client: pg.ClientBase, schema: string): Promise<void> {
  const name = pg.escapeIdentifier(schema);
  const role = pg.escapeIdentifier(roleOf(schema));
  await client.query(
    `create table if not exists ${name}.schema_migrations (
       name       text primary key,
       sha256     text not null,
       fits       text not null,
       applied_at timestamptz not null default now()
     );
     create table if not exists ${name}.schema_release (
       is_only_row boolean primary key default true check (is_only_row),
       release     text not null,
       migrated_at timestamptz not null default now()
     );
     revoke insert, update, delete on ${name}.schema_migrations, ${name}.schema_release from ${role}`,
  );
}

/** Records that this release migrated the schema. */
async function recordRelease(client: pg.ClientBase, schema: string): Promise<void> {
  await client.query(
    `insert into ${pg.escapeIdentifier(schema)}.schema_release (release) values ($1)
     on conflict (is_only_row) do update set release = excluded.release, migrated_at = now()`,
    [RELEASE],
  );
}

// At the end, because it runs before anything below it is initialized.
if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  await runCommand('migrate', () => main(process.env));
}
