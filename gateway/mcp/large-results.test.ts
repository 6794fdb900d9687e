import { create } from '@bufbuild/protobuf';
import { afterEach, expect, test } from '@jest/globals';
import { CustomerSchema } from '../../proto/gen/rms/returns/v1/return_pb.ts';
import { sampleReturn } from '../../test/kit/gateway/fake-objects.ts';
import { type McpBench, startMcpBench } from '../../test/kit/gateway/mcp.ts';

const MIB = 1024 * 1024;
const WHOLE = { name: 'get_return', arguments: { return_id: 11, detail: 'full' } };

let bench: McpBench | undefined;
afterEach(() => bench?.stop());

/** A gateway, and a user whose return has a shopper with this name. */
async function withName(name: string, o: Parameters<typeof startMcpBench>[0] = {}) {
  bench = await startMcpBench(o);
  const customer = create(CustomerSchema, { firstName: name });
  bench.services.returns.findReturn = () => ({ return: { ...sampleReturn(), customer } });
  return { bench, token: (await bench.member('owner')).token };
}

test('a result beyond the memory of the shop gets 429 with the code of rate limits and the id', async () => {
  const { bench, token } = await withName('x'.repeat(3 * MIB), {
    responseBudget: { shop: 4 * MIB, caller: 4 * MIB },
  });
  const body = { jsonrpc: '2.0', id: 'seven', method: 'tools/call', params: WHOLE };
  const rejected = await bench.post({ token, body });
  expect(rejected).toMatchObject({
    status: 429,
    headers: { 'retry-after': expect.stringMatching(/^[1-9]\d*$/) },
    body: { jsonrpc: '2.0', id: 'seven', error: { code: 42_900 } },
  });
});

test('a result that is too large for any response is an error that says what to do', async () => {
  // Each quote has two bytes in the object, and four in the text of the result.
  const { bench, token } = await withName('"'.repeat(10 * MIB));
  const result = await bench.call(token, WHOLE.name, WHOLE.arguments);
  expect(result).toMatchObject({ isError: true, data: undefined });
  expect(result.text).toMatch(/larger than 56 MiB.*detail summary.*REST API/);
});

test('the largest return of plain text is sent', async () => {
  const { bench, token } = await withName('x'.repeat(24 * MIB));
  const result = await bench.call(token, WHOLE.name, WHOLE.arguments);
  expect(result.data.untrusted_details.customer_first_name).toHaveLength(24 * MIB);
}, 60_000);
