import { rmSync } from 'node:fs';
import pg from 'pg';
import { startPostgres } from '../../../deploy/local/postgres/start.ts';
import { migrate } from '../../../services/platform/migrate.ts';
import { SCHEMAS } from '../../../services/platform/schemas.ts';
import { COMPILE_CACHE } from './compile-cache.ts';
import { temporaryFolder } from '../database/temporary-folder.ts';

/** Copied for every test file, so that each starts with all migrations applied and no rows. */
const TEMPLATE = 'rms_template';

/** Starts a temporary PostgreSQL for the run, unless TEST_POSTGRES_URL names one (as its superuser). */
export default async function globalSetup(): Promise<void> {
  process.env.NODE_COMPILE_CACHE ??= COMPILE_CACHE;
  const given = process.env.TEST_POSTGRES_URL;
  const url = given ?? (await startThrowAway());
  const admin = new pg.Client({ connectionString: url });
  await admin.connect();
  await admin.query(`drop database if exists ${TEMPLATE}`);
  await admin.query(`create database ${TEMPLATE}`);
  await admin.end();
  const template = new URL(url);
  template.pathname = `/${TEMPLATE}`;
  process.env.TEST_DATABASE_URL = template.href;
  process.env.TEST_MIGRATION_FAULTS = JSON.stringify(await migrateEach(template.href));
}

/** A schema that cannot be migrated fails the tests that ask for it, not those of the others. */
async function migrateEach(databaseUrl: string): Promise<Record<string, string>> {
  const faults: Record<string, string> = {};
  for (const schema of SCHEMAS) {
    try {
      await migrate({ databaseUrl, schemas: [schema] });
    } catch (error) {
      faults[schema.name] = error instanceof Error ? error.message : String(error);
    }
  }
  return faults;
}

async function startThrowAway(): Promise<string> {
  const folder = temporaryFolder();
  const postgres = await startPostgres({ folder, durable: false });
  Object.assign(globalThis, {
    stopTestPostgres: async () => {
      await postgres.stop();
      rmSync(folder, { recursive: true, force: true });
    },
  });
  return postgres.url;
}
