import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { startTestGateway, type TestGateway } from '../../../test/kit/gateway/test-gateway.ts';
import { until } from '../../../test/kit/until.ts';
import { createPortalSessions } from './sessions.ts';

let under: TestGateway;
beforeAll(async () => {
  under = await startTestGateway();
});
afterAll(() => under.stop());

test('invented sessions that wait for the database leave connections free', async () => {
  const { pool } = under.database;
  const sessions = createPortalSessions(pool, { hours: 12, idleMinutes: 120 });
  const lock = await pool.connect();
  try {
    await lock.query('begin; lock table portal_sessions in access exclusive mode');
    const invented = Array.from({ length: 2 * pool.options.max }, (_, nth) =>
      sessions.find(`invented-${nth}`),
    );
    await until(async () => {
      const waiting = await lock.query(
        "select from pg_locks where relation = 'portal_sessions'::regclass and not granted",
      );
      return waiting.rowCount !== 0;
    });
    const { rows } = await pool.query<{ free: string }>("select 'free' as free");
    expect(rows).toEqual([{ free: 'free' }]);
    await lock.query('rollback');
    expect(await Promise.all(invented)).toEqual(invented.map(() => undefined));
  } finally {
    lock.release();
  }
});
