import { randomUUID } from 'node:crypto';
import pg from 'pg';
import { migrate } from '../../../services/platform/postgres/migrate.ts';
import { roleOf, schemaNamed } from '../../../services/platform/postgres/schemas.ts';

/**
 * Creates a new database on the server, with one schema migrated.
 *
 * @returns its URL for the role of that schema.
 */
export async function freshDatabase(o: {
  /** The URL of the migrator. */
  readonly serverUrl: string;
  readonly schema: string;
  /** The password of the role. */
  readonly password: string;
}): Promise<string> {
  const name = `faults_${randomUUID().replaceAll('-', '')}`;
  const client = new pg.Client({ connectionString: o.serverUrl });
  await client.connect();
  try {
    await client.query(`create database ${pg.escapeIdentifier(name)}`);
  } finally {
    await client.end();
  }
  const url = new URL(o.serverUrl);
  url.pathname = `/${name}`;
  const schemas = [schemaNamed(o.schema)];
  await migrate({ databaseUrl: url.href, schemas, passwords: { [o.schema]: o.password } });
  url.username = roleOf(o.schema);
  url.password = o.password;
  return url.href;
}
