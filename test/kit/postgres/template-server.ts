import { rmSync } from 'node:fs';
import pg from 'pg';
import { startPostgres } from '../../../deploy/local/postgres/start.ts';
import { migrate } from '../../../services/platform/postgres/migrate.ts';
import { SCHEMAS } from '../../../services/platform/postgres/schemas.ts';
import { temporaryFolder } from './temporary-folder.ts';

/** Each test file gets a copy, with all migrations applied and no rows. */
const TEMPLATE = 'rms_template';

/** What a test file needs to create its database. */
export interface Template {
  /** The template's URL, as the migrator. */
  readonly url: string;
  /** Migration errors by schema. Only the tests of that schema fail. */
  readonly failures: Readonly<Record<string, string>>;
}

/** Makes the template in a temporary PostgreSQL, or in that of TEST_POSTGRES_URL, whose user may create databases. */
async function serveTemplate(): Promise<void> {
  const existingUrl = process.env.TEST_POSTGRES_URL;
  const { url, stop } = existingUrl
    ? { url: existingUrl, stop: async () => {} }
    : await startThrowAway();
  // The process that forked this one has exited.
  const end = () => stop().finally(() => process.exit());
  process.once('disconnect', end);
  if (!process.connected) return end();
  const admin = new pg.Client({ connectionString: url });
  await admin.connect();
  await admin.query(`drop database if exists ${TEMPLATE}`);
  await admin.query(`create database ${TEMPLATE}`);
  await admin.end();
  const address = new URL(url);
  address.pathname = `/${TEMPLATE}`;
  const failures = await migrateEach(address.href);
  process.send?.(JSON.stringify({ url: address.href, failures } satisfies Template));
}

/** Migrates each schema separately, so that a failed migration fails only the tests of its schema. */
async function migrateEach(databaseUrl: string): Promise<Record<string, string>> {
  const failures: Record<string, string> = {};
  for (const schema of SCHEMAS) {
    try {
      await migrate({ databaseUrl, schemas: [schema] });
    } catch (error) {
      failures[schema.name] = error instanceof Error ? error.message : String(error);
    }
  }
  return failures;
}

async function startThrowAway(): Promise<{ readonly url: string; stop(): Promise<void> }> {
  const folder = temporaryFolder();
  const postgres = await startPostgres({ folder, durable: false });
  return {
    url: postgres.url,
    async stop() {
      await postgres.stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

// Ctrl-C reaches this process too. It exits when jest has stopped the tests that use the database.
process.on('SIGINT', () => {});
await serveTemplate();
