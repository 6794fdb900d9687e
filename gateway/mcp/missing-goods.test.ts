import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { FAKE } from '../../test/kit/gateway/fake-objects.ts';
import { type McpBench, startMcpBench } from '../../test/kit/gateway/mcp.ts';

let bench: McpBench;
let token: string;
beforeAll(async () => {
  bench = await startMcpBench();
  token = (await bench.member('owner')).token;
});
afterAll(() => bench?.stop());

test('process_return and record_dispositions tell the user which goods are paid although they are missing', async () => {
  Object.assign(bench.services.returns, {
    processReturn: () => ({
      result: { case: 'queued', value: {} },
      missingLineItemIds: Array.from({ length: 11 }, (_, n) => BigInt(n + 1)),
    }),
  });
  const processed = await bench.call(token, 'process_return', { return_id: 11 });
  expect(processed.data?.next_step).toContain(
    'Tell the user: line items 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 1 more are recorded as missing',
  );
  bench.resetServices();
  const recorded = async (disposition_outcome: string) => {
    const items = [{ line_item_id: Number(FAKE.lineItem), disposition_outcome }];
    return (await bench.call(token, 'record_dispositions', { items })).data?.next_step;
  };
  expect(await recorded('missing')).toContain('line item 21 is recorded as missing');
  expect(await recorded('donate')).toBeUndefined();
});
