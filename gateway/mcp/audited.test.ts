import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
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
