import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type pg from 'pg';
import { createEmptyDatabase, createTestDatabase } from '../../test/support/database.ts';
import { migrate } from './migrate.ts';
import { type Migration, schemaState } from './migrations.ts';
import { createPool } from './postgres.ts';
import { SCHEMAS, schemaNamed } from './schemas.ts';

describe('migrate', () => {
  let database: Awaited<ReturnType<typeof createEmptyDatabase>>;
  beforeAll(async () => {
    database = await createEmptyDatabase();
  });
  afterAll(() => database.drop());

  test('two at once take turns, and each file is applied once', async () => {
    const counts = await Promise.all([
      migrate({ databaseUrl: database.url }),
      migrate({ databaseUrl: database.url }),
    ]);
    expect(Math.min(...counts)).toBe(0);
    expect(Math.max(...counts)).toBeGreaterThan(SCHEMAS.length);
  });
});

describe('schema state', () => {
  let database: Awaited<ReturnType<typeof createTestDatabase>>;
  let migrator: pg.Pool;
  beforeAll(async () => {
    database = await createTestDatabase('fraud');
    migrator = createPool(database.migratorUrl);
  });
  afterAll(async () => {
    await migrator.end();
    await database.drop();
  });

  test('is current after a migration, seen by the role of the service', async () => {
    expect(await schemaState(database.pool, 'fraud')).toMatchObject({ state: 'current' });
  });
});
