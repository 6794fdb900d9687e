import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { type McpBench, startMcpBench } from '../../test/kit/gateway/mcp.ts';

const MIB = 1024 * 1024;
/** This is not JSON, so status 400 shows that the body was read. */
const body = (size: number): string => '{'.padEnd(size, ' ');

let bench: McpBench;
beforeAll(async () => {
  bench = await startMcpBench({ bodyBudget: { process: 2 * MIB, caller: 1.75 * MIB } });
});
afterAll(() => bench.stop());

test.each([
  ["above the user's budget", 1.8 * MIB, 429, 42_900],
  ['above the budget of the process', 1.6 * MIB, 503, -32_603],
  ['within both budgets', 1.4 * MIB, 400, -32_700],
])('a body at /mcp %s', async (_, size, status, code) => {
  const { token } = await bench.member('owner');
  const response = await bench.post({ token, raw: body(size) });
  expect(response).toMatchObject({ status, body: { id: null, error: { code } } });
  const retryAfter = response.headers['retry-after'];
  if (status === 400) expect(retryAfter).toBeUndefined();
  else expect(retryAfter).toMatch(/^[1-9]\d*$/);
});
