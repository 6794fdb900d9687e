import pg from 'pg';
import { createTestDatabase } from './database.ts';

/** Returns the rows of a query about the tables of all schemas, as the migrator sees them. */
export async function queryMigrated<Row extends pg.QueryResultRow>(text: string): Promise<Row[]> {
  const database = await createTestDatabase('gateway');
  const migrator = new pg.Client({ connectionString: database.migratorUrl });
  try {
    await migrator.connect();
    return (await migrator.query<Row>(text)).rows;
  } finally {
    await migrator.end();
    await database.drop();
  }
}
