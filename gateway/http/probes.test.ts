import { expect, test } from '@jest/globals';
import { createPool } from '../../services/platform/postgres.ts';
import { createEmptyDatabase, createTestDatabase } from '../../test/kit/database.ts';
import { until } from '../../test/kit/until.ts';
import { createReadiness } from './probes.ts';

test.each([
  ['fits is ready', () => createTestDatabase('gateway'), true],
  ['does not fit is not ready', createEmptyDatabase, false],
])(
  'a gateway whose schema %s, and it stays so when the database becomes unavailable',
  async (_, create, isReady) => {
    const database = await create();
    const pool = createPool(database.url);
    const readiness = createReadiness(pool, () => 'running');
    const before = await until(async () => {
      const current = await readiness();
      return current.parts.schema !== 'unknown' && current;
    });
    await pool.end();
    const after = await until(async () => {
      const current = await readiness();
      return current.parts.database !== 'ok' && current;
    });
    await database.drop();
    expect([before.ready, after.ready]).toEqual([isReady, isReady]);
  },
);

test.each(['connecting to the services', 'stopping'] as const)(
  'a gateway that is %s is not ready, and says so',
  async (phase) => {
    const pool = createPool('postgres://nobody@127.0.0.1:1/none');
    const readiness = await createReadiness(pool, () => phase)();
    await pool.end();
    expect(readiness).toEqual({ ready: false, parts: { gateway: phase } });
  },
);
