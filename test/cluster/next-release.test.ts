import { mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { migrate } from '../../services/platform/postgres/migrate.ts';
import { RELEASE } from '../../services/platform/postgres/release.ts';
import { schemaState } from '../../services/platform/postgres/schema-state.ts';
import { createTestDatabase, type TestDatabase } from '../kit/database.ts';
import { ROOT, runToSuccess } from '../kit/process.ts';
import { NEXT, writeNextRelease } from './next-release.ts';

let folder: string;
let database: TestDatabase;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'next-release-'));
  writeNextRelease(folder);
  symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
  database = await createTestDatabase('returns');
});
afterAll(async () => {
  await database.drop();
  rmSync(folder, { recursive: true });
});

/** Runs a command of the next release. */
const next = (file: string) =>
  runToSuccess({
    args: [file],
    cwd: folder,
    env: { ...process.env, NODE_OPTIONS: '', NODE_ENV: 'test', DATABASE_URL: database.migratorUrl },
  });

test('the next release follows this one without a stop, and this one works with its schema', async () => {
  expect(await next('services/platform/postgres/fits.ts')).toContain(
    `rolling update to ${NEXT}, and back: possible (1 migration(s) to apply)`,
  );
  expect(await next('services/platform/postgres/migrate.ts')).toContain('1 migration(s) applied');
  expect(await schemaState(database.pool, 'returns')).toEqual({
    state: 'fits',
    detail: `schema returns is newer and fits release ${RELEASE}`,
  });
  // The migration Job of this release runs again when the update is taken back.
  expect(await migrate({ databaseUrl: database.migratorUrl })).toBe(0);
  const { rows } = await database.pool.query('select next_release from returns');
  expect(rows).toEqual([]);
});
