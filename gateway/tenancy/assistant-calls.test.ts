import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { startTestGateway, type TestGateway } from '../../test/kit/gateway/test-gateway.ts';
import { costOf, recordingPool, vacuum } from '../../test/kit/postgres/plans.ts';
import { assistantCalls } from './assistant-calls.ts';
import { listAudit } from './audit-list.ts';

let under: TestGateway;
beforeAll(async () => {
  under = await startTestGateway();
});
afterAll(() => under.stop());

test('the calls of a page are found with one statement, by index, also for an object of many calls', async () => {
  const { pool, url, migratorUrl } = under.database;
  const shopId = await under.newShop();
  // Each minute one call about the same assistant, with its change.
  await pool.query(
    `insert into audit_log (shop_id, at, actor_kind, actor_id, actor_name, request_id, action, subject, detail)
     select $1, now() - i / 2 * interval '1 minute', 'user', '7', '', 'request ' || i / 2,
            case i % 2 when 0 then 'mcp.disconnect_assistant' else 'assistant.disconnected' end, 'grant',
            case i % 2 when 0 then '{"call": "c"}'::jsonb else '{}' end
       from generate_series(0, 49999) i`,
    [shopId],
  );
  await vacuum(migratorUrl);
  const filter = { shopId, action: 'assistant.disconnected', limit: 200 };
  const changes = await listAudit(pool, filter);
  const recorded = recordingPool(url);
  try {
    const calls = await assistantCalls(recorded.pool, shopId, changes);
    expect(changes).toHaveLength(200);
    expect(changes.map(({ id }) => calls.get(id))).toMatchObject(
      changes.map(({ requestId }) => ({ action: 'mcp.disconnect_assistant', requestId })),
    );
    const statements = recorded.taken();
    expect(statements).toHaveLength(1);
    for (const statement of statements) {
      const cost = await costOf(pool, statement);
      expect(cost.scans).toEqual([]);
      expect(cost.buffers).toBeLessThan(8_000);
    }
    expect((await assistantCalls(pool, await under.newShop(), changes)).size).toBe(0);
  } finally {
    await recorded.pool.end();
  }
});
