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

/** Makes the template in a temporary PostgreSQL, or in that of TEST_POSTGRES_URL (as a user that may create databases). */
async function serveTemplate(): Promise<void> {
  const given = process.env.TEST_POSTGRES_URL;
  const { url, stop } = given ? { url: given, stop: async () => {} } : await startThrowAway();
  // The process that forked this one has ended, in whatever way.
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
  const faults = await migrateEach(address.href);
  process.send?.(JSON.stringify({ url: address.href, faults } satisfies Template));
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

// Ctrl-C reaches this process too. It ends when jest has stopped what uses the database.
process.on('SIGINT', () => {});
await serveTemplate();
