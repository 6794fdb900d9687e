import { rmSync } from 'node:fs';
import pg from 'pg';
import { startPostgres } from '../../../deploy/local/postgres/start.ts';
import { migrate } from '../../../services/platform/migrate.ts';
import { SCHEMAS } from '../../../services/platform/schemas.ts';
import { temporaryFolder } from './temporary-folder.ts';

/** Copied for every test file, so that each starts with all migrations applied and no rows. */
const TEMPLATE = 'rms_template';

/** What a test file needs to make its own database. */
export interface Template {
  /** URL of a database with every migration applied and no rows, as the migrator. */
  readonly url: string;
  /** Why a schema cannot be migrated, by its name. Only the tests that ask for it fail. */
  readonly faults: Readonly<Record<string, string>>;
}

export interface TemplateServer {
  readonly template: Template;
  stop(): Promise<void>;
}

/** Starts a temporary PostgreSQL for the run, unless TEST_POSTGRES_URL names one (as a user that may create databases). */
export async function startTemplateServer(): Promise<TemplateServer> {
  const given = process.env.TEST_POSTGRES_URL;
  const { url, stop } = given ? { url: given, stop: async () => {} } : await startThrowAway();
  const admin = new pg.Client({ connectionString: url });
  await admin.connect();
  await admin.query(`drop database if exists ${TEMPLATE}`);
  await admin.query(`create database ${TEMPLATE}`);
  await admin.end();
  const template = new URL(url);
  template.pathname = `/${TEMPLATE}`;
  return { template: { url: template.href, faults: await migrateEach(template.href) }, stop };
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
