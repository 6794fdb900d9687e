import { join } from 'node:path';
import { migrate } from '../../services/platform/migrate.ts';
import { roleOf, SCHEMAS } from '../../services/platform/schemas.ts';
import type { Memory } from './memory.ts';
import { startPostgres } from './postgres.ts';

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
 *
 * @param durable false when the data is deleted at the end.
 */
export async function startDatabase(
  memory: Memory,
  o: { readonly folder: string; readonly durable: boolean; readonly url: string | undefined },
): Promise<Database> {
  const own = o.url
    ? undefined
    : await startPostgres({
        folder: join(o.folder, 'postgres'),
        port: memory.ports.postgres,
        durable: o.durable,
        onRestart: (line) => console.error(line),
      });
  const url = o.url ?? own?.url ?? '';
  const passwords = Object.fromEntries(SCHEMAS.map(({ name }) => [name, memory.databasePassword]));
  await migrate({ databaseUrl: url, passwords });
  return {
    url,
    urlOf(schema) {
      const address = new URL(url);
      address.username = roleOf(schema);
      address.password = memory.databasePassword;
      return address.href;
    },
    stop: () => own?.stop() ?? Promise.resolve(),
  };
}
