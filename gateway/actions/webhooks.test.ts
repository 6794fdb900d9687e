import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { hostLimitReached } from '../../services/webhooks/subscriptions/subscription-limits.ts';
import { type McpBench, startMcpBench } from '../../test/kit/gateway/mcp.ts';
import { restClient } from '../../test/kit/gateway/rest-client.ts';

let bench: McpBench;
beforeAll(async () => {
  bench = await startMcpBench();
  const reject = (): never => {
    throw hostLimitReached('hooks.example.com');
  };
  Object.assign(bench.services.webhooks, {
    createSubscription: reject,
    updateSubscription: reject,
  });
}, 60_000);
afterAll(() => bench?.stop());

const json = { topic: 'return', trigger: 'return.closed', url: 'https://hooks.example.com/' };
const limit = expect.stringContaining(
  'at most 5 active webhook subscriptions to one host for one pair of topic and trigger',
);

test.each([
  ['POST', '/api/v1/webhooks'],
  ['PUT', '/api/v1/webhooks/41'],
] as const)(
  '%s %s: one subscription too many for a host is 422 with the limit',
  async (method, path) => {
    const baseUrl = `http://127.0.0.1:${bench.gateway.port}`;
    expect(await restClient(bench)({ method, path, json, baseUrl })).toMatchObject({
      status: 422,
      body: { errors: { code: 'FAILED_TO_CREATE_WEBHOOK', message: limit } },
    });
  },
);

test('update_webhook rejects one subscription too many for a host, and the error has the limit', async () => {
  const { token } = await bench.member('owner');
  const args = { webhook_id: 41, status: 'active' };
  const result = await bench.call(token, 'update_webhook', args);
  expect(result).toMatchObject({ isError: true, text: limit });
  expect(result.text).toContain('Nothing was changed.');
});
