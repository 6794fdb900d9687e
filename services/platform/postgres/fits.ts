import { pathToFileURL } from 'node:url';
import { loadConfig, postgresUrl, processShape } from '../process/config.ts';
import { runCommand } from '../process/run-command.ts';
import { transportShape } from '../security/transport-security.ts';
import { DatabaseClient } from './database-client.ts';
import { migrationsOf } from './migration-files.ts';
import type { Queryable } from './postgres.ts';
import { isOlder, RELEASE } from './release.ts';
import { appliedIn, compare, releaseIn } from './schema-state.ts';
import { SCHEMAS } from './schemas.ts';

/** Whether a rolling update from the running release to this release is possible, and back again. */
export interface UpdateCheck {
  readonly isPossible: boolean;
  /** Explanation for an operator, in one line. */
  readonly detail: string;
}

/**
 * Checks every schema. An update is possible when each missing migration fits the running release. Then processes of
 * both releases work with the migrated schema: before the update, during it, and after a rollback.
 *
 * @param db reads `schema_migrations` and `schema_release` of all schemas. The migrator may do so.
 */
export async function checkUpdate(db: Queryable, schemas = SCHEMAS): Promise<UpdateCheck> {
  let missing = 0;
  for (const schema of schemas) {
    const running = await releaseIn(db, schema.name);
    const applied = await appliedIn(db, schema.name);
    const state = compare(schema.name, await migrationsOf(schema), applied);
    const update = running === undefined ? `to ${RELEASE}` : `from ${running} to ${RELEASE}`;
    if (state.conflict) return notPossible(update, state.conflict);
    // A schema that was never migrated has no processes, so every migration fits.
    const first = running && state.missing.find(({ fits }) => isOlder(running, fits));
    if (first) {
      const why = `${schema.name}: ${first.name} needs release ${first.fits} or later`;
      return notPossible(update, `${why}; stop all processes of ${running} first`);
    }
    missing += state.missing.length;
  }
  const detail = `rolling update to ${RELEASE}, and back: possible (${missing} migration(s) to apply)`;
  return { isPossible: true, detail };
}

function notPossible(update: string, why: string): UpdateCheck {
  return { isPossible: false, detail: `rolling update ${update}: not possible: ${why}` };
}

/** Runs the command. Prints one line. The exit status is 1 when a rolling update is not possible. */
async function main(env: NodeJS.ProcessEnv): Promise<string> {
  const config = loadConfig(
    { DATABASE_URL: postgresUrl, NODE_ENV: processShape.NODE_ENV, ...transportShape },
    env,
  );
  const client = new DatabaseClient({
    connectionString: config.DATABASE_URL,
    application_name: 'fits',
  });
  await client.connect();
  try {
    const { isPossible, detail } = await checkUpdate(client);
    if (!isPossible) process.exitCode = 1;
    return detail;
  } finally {
    await client.end();
  }
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  await runCommand('fits', () => main(process.env));
}
