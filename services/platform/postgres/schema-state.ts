import pg from 'pg';
import { type Migration, migrationsOf } from './migration-files.ts';
import type { Queryable } from './postgres.ts';
import { isOlder, newestOf, RELEASE } from './release.ts';
import { schemaNamed } from './schemas.ts';

export interface SchemaState {
  /** `fits` includes a newer schema whose migrations say that they fit this release. */
  readonly state: 'fits' | 'older' | 'newer';
  /** Description for the log, one line. */
  readonly detail: string;
}

/**
 * Compares the schema in the database with the migrations in this code. The role of the schema's process has the rights
 * for it. `newer` is also the state when the content of an applied file was changed later.
 */
export async function schemaState(db: Queryable, schema: string): Promise<SchemaState> {
  const expected = await migrationsOf(schemaNamed(schema));
  const { missing, conflict, ahead } = compare(schema, expected, await appliedIn(db, schema));
  if (conflict) return { state: 'newer', detail: conflict };
  const [first] = missing;
  if (first) {
    const detail = `schema ${schema} lacks ${missing.length} migration(s), first ${first.name}; run the migrate command`;
    return { state: 'older', detail };
  }
  const detail =
    ahead.length === 0
      ? `schema ${schema} is current`
      : `schema ${schema} is newer and fits release ${RELEASE}`;
  return { state: 'fits', detail };
}

/** A row of `schema_migrations`. */
export interface Applied {
  readonly name: string;
  readonly sha256: string;
  /** See {@link Migration}. */
  readonly fits: string;
}

export interface Comparison {
  readonly missing: readonly Migration[];
  /** Applied migrations of a newer release, which this code does not have. */
  readonly ahead: readonly Applied[];
  /** Why this code cannot work with the schema; absent when it can. */
  readonly conflict?: string;
}

/** Compares the applied migrations with the files of this code. */
export function compare(
  schema: string,
  expected: readonly Migration[],
  applied: readonly Applied[],
): Comparison {
  const own = new Map(expected.map((migration) => [migration.name, migration]));
  const names = new Set(applied.map(({ name }) => name));
  const missing = expected.filter(({ name }) => !names.has(name));
  const ahead = applied.filter(({ name }) => !own.has(name));
  const changed = applied.filter(({ name, sha256 }) => {
    const migration = own.get(name);
    return migration !== undefined && migration.sha256 !== sha256;
  });
  const conflict = conflictOf(schema, { missing, ahead, changed });
  return conflict === undefined ? { missing, ahead } : { missing, ahead, conflict };
}

function conflictOf(
  schema: string,
  { missing, ahead, changed }: Comparison & { readonly changed: readonly Applied[] },
): string | undefined {
  const list = (rows: readonly { readonly name: string }[]) =>
    rows.map(({ name }) => name).join(', ');
  if (changed.length > 0)
    return `schema ${schema}: ${list(changed)} was changed after it was applied`;
  if (ahead.length === 0) return undefined;
  const needed = newestOf(ahead.map(({ fits }) => fits));
  if (isOlder(RELEASE, needed)) {
    return `schema ${schema} is newer than this code, which lacks ${list(ahead)}: it needs release ${needed}, this is ${RELEASE}`;
  }
  // Each of the two releases lacks a migration of the other. So neither can follow the other.
  if (missing.length > 0) {
    return `schema ${schema} has ${list(ahead)} of another release, and lacks ${list(missing)}`;
  }
  return undefined;
}

/**
 * Codes that mean: no migration is applied. The schema or the table does not exist, or this process may not read it.
 */
const NOT_MIGRATED = new Set(['3F000', '42P01', '42501']);

/** Returns the applied migrations of a schema. */
export async function appliedIn(db: Queryable, schema: string): Promise<Applied[]> {
  try {
    const { rows } = await db.query<Applied>(
      `select name, sha256, fits from ${pg.escapeIdentifier(schema)}.schema_migrations`,
    );
    return rows;
  } catch (error) {
    if (error instanceof pg.DatabaseError && NOT_MIGRATED.has(error.code ?? '')) return [];
    throw error;
  }
}

/**
 * Returns the release that last migrated a schema. As far as the database shows, its processes are running. Undefined
 * when no release has completed a migration of the schema.
 */
export async function releaseIn(db: Queryable, schema: string): Promise<string | undefined> {
  const { rows } = await db.query<{ exists: boolean }>(
    'select to_regclass($1) is not null as exists',
    [`${pg.escapeIdentifier(schema)}.schema_release`],
  );
  if (!rows[0]?.exists) return undefined;
  const found = await db.query<{ release: string }>(
    `select release from ${pg.escapeIdentifier(schema)}.schema_release`,
  );
  return found.rows[0]?.release;
}
