import { randomUUID } from 'node:crypto';
import pg from 'pg';
import { createPool } from '../../../services/platform/postgres.ts';
import { roleOf } from '../../../services/platform/schemas.ts';

export interface TestDatabase {
  /** Logged in as the service's own role, with its rights and its search path. */
  readonly pool: pg.Pool;
  readonly url: string;
  /** Connects as the migrator, for statements that the service may not run. */
  readonly migratorUrl: string;
  /** Closes the pool and removes the database. */
  drop(): Promise<void>;
}

/** A new database with every migration applied and no rows, as seen by the service `schema`. */
export async function createTestDatabase(schema: string): Promise<TestDatabase> {
  const fault = JSON.parse(process.env.TEST_MIGRATION_FAULTS ?? '{}')[schema];
  if (fault) throw new Error(fault);
  const name = `test_${randomUUID().replaceAll('-', '')}`;
  await onServer((admin, template) =>
    admin.query(`create database ${name} template ${template} strategy file_copy`),
  );
  const migratorUrl = urlOf(name);
  const url = urlOf(name, roleOf(schema));
  const pool = createPool(url, { max: 20 });
  return {
    pool,
    url,
    migratorUrl,
    async drop() {
      await pool.end();
      // Without force the server waits up to 5 s for connections that are ending. With force it would terminate them,
      // which the migrator may not do to another role's connections.
      await onServer((admin) => admin.query(`drop database if exists ${name}`));
    },
  };
}

/** A database without any schema, for tests of the migrations themselves. */
export async function createEmptyDatabase(): Promise<{ url: string; drop(): Promise<void> }> {
  const name = `test_${randomUUID().replaceAll('-', '')}`;
  await onServer((admin) => admin.query(`create database ${name} template template0`));
  return {
    url: urlOf(name),
    drop: () =>
      onServer(async (admin) => {
        await admin.query(`drop database if exists ${name} with (force)`);
      }),
  };
}

function urlOf(database: string, user?: string): string {
  const url = new URL(templateUrl());
  url.pathname = `/${database}`;
  if (user) [url.username, url.password] = [user, ''];
  return url.href;
}

function templateUrl(): string {
  const url = process.env.TEST_DATABASE_URL;
  if (!url) throw new Error('TEST_DATABASE_URL is set by test/kit/jest/global-setup.ts');
  return url;
}

async function onServer<T>(work: (admin: pg.Client, template: string) => Promise<T>): Promise<T> {
  const url = new URL(templateUrl());
  const template = url.pathname.slice(1);
  url.pathname = '/postgres';
  const admin = new pg.Client({ connectionString: url.href });
  await admin.connect();
  try {
    return await work(admin, template);
  } finally {
    await admin.end();
  }
}
