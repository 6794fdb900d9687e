import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import pg from 'pg';
import { SubscriptionStatus } from '../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { FAKE, sampleSubscription } from '../../test/kit/gateway/fake-objects.ts';
import { type McpBench, startMcpBench } from '../../test/kit/gateway/mcp.ts';

let bench: McpBench;
beforeAll(async () => {
  bench = await startMcpBench();
}, 60_000);
afterAll(() => bench?.stop());

test('a write of an assistant is in the audit log with user, client, address and request', async () => {
  const { token, userId } = await bench.member('owner');
  const requestId = randomUUID();
  const params = { name: 'update_webhook', arguments: { webhook_id: 41, status: 'inactive' } };
  const { body } = await bench.post({
    token,
    headers: { 'x-request-id': requestId, 'x-forwarded-for': '2001:db8:1:2::9' },
    body: { jsonrpc: '2.0', id: 1, method: 'tools/call', params },
  });
  expect(body.result.isError).not.toBe(true);
  const { rows } = await bench.database.pool.query(
    `select actor_kind, actor_id, source, action, subject, detail from audit_log
      where request_id = $1 order by id`,
    [requestId],
  );
  const common = {
    actor_kind: 'user',
    actor_id: String(userId),
    source: '2001:db8:1:2::/64',
    action: 'mcp.update_webhook',
    subject: String(FAKE.webhook),
  };
  expect(rows).toMatchObject([
    { ...common, detail: { phase: 'asked', client_id: 'rms-mcp' } },
    { ...common, detail: { phase: 'done', client_id: 'rms-mcp' } },
  ]);
});

test('the second entry says what was changed', async () => {
  const { token } = await bench.member('owner');
  bench.services.webhooks.updateSubscription = () => ({
    subscription: { ...sampleSubscription(), status: SubscriptionStatus.INACTIVE },
    previous: sampleSubscription(),
  });
  const requestId = randomUUID();
  const params = { name: 'update_webhook', arguments: { webhook_id: 41, status: 'inactive' } };
  await bench.post({
    token,
    headers: { 'x-request-id': requestId },
    body: { jsonrpc: '2.0', id: 1, method: 'tools/call', params },
  });
  const { rows } = await bench.database.pool.query(
    "select detail->'changes' as changes from audit_log where request_id = $1 order by id",
    [requestId],
  );
  expect(rows).toEqual([
    { changes: null },
    { changes: [{ field: 'status', from: 'active', to: 'inactive' }] },
  ]);
});

test('a call does not fail when the name of its program cannot be stored', async () => {
  const { token, userId } = await bench.member('owner');
  const { pool, migratorUrl } = bench.database;
  const migrator = new pg.Client({ connectionString: migratorUrl });
  await migrator.connect();
  await pool.query("update oauth_grants set app = '127.0.0.1:5' where user_id = $1", [userId]);
  await migrator.query(
    "alter table gateway.oauth_grants add constraint no_name check (self_name is distinct from 'Unlucky')",
  );
  const { status, body } = await bench.rpc(token, 'initialize', {
    protocolVersion: '2025-11-25',
    capabilities: {},
    clientInfo: { name: 'Unlucky', version: '1' },
  });
  await migrator.query('alter table gateway.oauth_grants drop constraint no_name');
  await migrator.end();
  expect([status, body.result?.protocolVersion]).toEqual([200, '2025-11-25']);
});
