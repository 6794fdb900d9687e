import { randomUUID } from 'node:crypto';
import pg from 'pg';
import { createPool } from '../../services/platform/postgres/postgres.ts';
import { roleOf } from '../../services/platform/postgres/schemas.ts';
import type { Template } from './postgres/template-server.ts';

export interface TestDatabase {
  /** Connects as the service's own role, with its rights and its search path. */
  readonly pool: pg.Pool;
  readonly url: string;
  /** Connects as the migrator, for statements that the service may not run. */
  readonly migratorUrl: string;
  /** Closes the pool and removes the database. */
  drop(): Promise<void>;
}

/** A new database with every migration applied and no rows, for the role of `schema`. */
export async function createTestDatabase(schema: string): Promise<TestDatabase> {
  const { url: template, failures } = await sharedTemplate();
  const failure = failures[schema];
  if (failure) throw new Error(failure);
  const name = newName();
  const source = new URL(template).pathname.slice(1);
  await onServer(`create database ${name} template ${source} strategy file_copy`);
  const migratorUrl = urlOf(template, name);
  const url = urlOf(template, name, roleOf(schema));
  const pool = createPool(url, { max: 20 });
  return {
    pool,
    url,
    migratorUrl,
    async drop() {
      await pool.end();
      // Without force the server waits up to 5 s for connections that are closing. With force it would terminate them,
      // and the migrator may not terminate another role's connections.
      await onServer(`drop database if exists ${name}`);
    },
  };
}

/** A database without any schema, for tests of the migrations themselves. */
export async function createEmptyDatabase(): Promise<{ url: string; drop(): Promise<void> }> {
  const { url } = await sharedTemplate();
  const name = newName();
  await onServer(`create database ${name} template template0`);
  return {
    url: urlOf(url, name),
    drop: () => onServer(`drop database if exists ${name} with (force)`),
  };
}

function newName(): string {
  return `test_${randomUUID().replaceAll('-', '')}`;
}

function urlOf(template: string, database: string, user?: string): string {
  const url = new URL(template);
  url.pathname = `/${database}`;
  if (user) [url.username, url.password] = [user, ''];
  return url.href;
}

let template: Promise<Template> | undefined;

/** The template of this run. The first call starts PostgreSQL. */
function sharedTemplate(): Promise<Template> {
  template ??= fetchTemplate();
  return template;
}

async function fetchTemplate(): Promise<Template> {
  const server = process.env.TEST_DATABASE_SERVER;
  if (!server) throw new Error('TEST_DATABASE_SERVER is set by test/kit/jest/global-setup.ts');
  const response = await fetch(server);
  if (!response.ok) throw new Error(`no database: ${await response.text()}`);
  return (await response.json()) as Template;
}

async function onServer(statement: string): Promise<void> {
  const { url } = await sharedTemplate();
  const admin = new pg.Client({ connectionString: urlOf(url, 'postgres') });
  await admin.connect();
  try {
    await admin.query(statement);
  } finally {
    await admin.end();
  }
}
