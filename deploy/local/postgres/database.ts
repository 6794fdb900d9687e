import { join } from 'node:path';
import { migrate } from '../../../services/platform/migrate.ts';
import { roleOf, SCHEMAS } from '../../../services/platform/schemas.ts';
import type { Plan } from '../plan.ts';
import { startPostgres } from './start.ts';

export interface Database {
  /** URL for the migrator. */
  readonly url: string;
  /** URL for the role of a schema. */
  urlOf(schema: string): string;
  stop(): Promise<void>;
}

/**
 * Starts and migrates the database of the stack: the one of DATABASE_URL (its migrator, with createrole), else a local
 * PostgreSQL.
 */
export async function startDatabase(plan: Plan): Promise<Database> {
  const { databaseUrl } = plan.externalSystems;
  const { databasePassword } = plan.memory.memory;
  const own = databaseUrl
    ? undefined
    : await startPostgres({
        folder: join(plan.folder, 'postgres'),
        port: plan.ports.postgres,
        // Without --data, the data is deleted at the end.
        durable: plan.options.data !== undefined,
        onRestart: (line) => console.error(line),
      });
  const url = databaseUrl ?? own?.url ?? '';
  const passwords = Object.fromEntries(SCHEMAS.map(({ name }) => [name, databasePassword]));
  await migrate({ databaseUrl: url, passwords });
  return {
    url,
    urlOf(schema) {
      const address = new URL(url);
      address.username = roleOf(schema);
      address.password = databasePassword;
      return address.href;
    },
    stop: () => own?.stop() ?? Promise.resolve(),
  };
}
