import { Code, ConnectError } from '@connectrpc/connect';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import type { FakeServices } from '../../test/kit/gateway/fake-services.ts';
import { type McpBench, type SignedInMember, startMcpBench } from '../../test/kit/gateway/mcp.ts';
import { GOOD_CALLS } from '../../test/kit/gateway/tool-calls.ts';
import type { ActionName } from '../actions/permissions.ts';

let bench: McpBench;
let owner: SignedInMember;
beforeAll(async () => {
  bench = await startMcpBench();
  owner = await bench.member('owner');
}, 60_000);
afterAll(() => bench?.stop());
afterEach(() => bench.resetServices());

/** The tools that change something in a service, and the RPC that does it. */
const WRITES = [
  ['flag_return', 'returns', 'flagReturn'],
  ['unflag_return', 'returns', 'unflagReturn'],
  ['cancel_return', 'returns', 'cancelReturn'],
  ['process_return', 'returns', 'processReturn'],
  ['add_return_note', 'returns', 'addNote'],
  ['record_dispositions', 'dispositions', 'assess'],
  ['update_destination', 'destinations', 'updateDestination'],
  ['create_fraud_report', 'fraud', 'createReport'],
  ['create_cart', 'carts', 'createCart'],
  ['update_webhook', 'webhooks', 'updateSubscription'],
] as const satisfies readonly (readonly [ActionName, keyof FakeServices, string])[];

let last = 0;

/** Makes the RPC fail without an answer while `isUnavailable`; remembers the keys that the service saw. */
function failing(service: keyof FakeServices, rpc: string) {
  const seen = { isUnavailable: true, keys: [] as string[] };
  const before: unknown = Reflect.get(bench.services[service], rpc);
  Object.assign(bench.services[service], {
    [rpc]: (request: { idempotencyKey: string }, context: unknown) => {
      seen.keys.push(request.idempotencyKey);
      if (seen.isUnavailable) throw new ConnectError('gone', Code.Unavailable);
      return typeof before === 'function' ? before(request, context) : {};
    },
  });
  return seen;
}

describe.each(WRITES)('%s whose response was lost', (tool, service, rpc) => {
  test('is repeated at once, with the same key for the service, and its answer is stored', async () => {
    const args = { ...GOOD_CALLS[tool], idempotency_key: `lost-${++last}` };
    const seen = failing(service, rpc);
    const first = await bench.call(owner.token, tool, args);
    expect(first).toMatchObject({ isError: true, text: expect.stringMatching(/same idempotency/) });
    seen.isUnavailable = false;
    const again = await bench.call(owner.token, tool, args);
    expect([again.isError, again.text]).toEqual([false, expect.any(String)]);
    expect(seen.keys.length).toBeGreaterThan(1);
    expect([...new Set(seen.keys)]).toEqual([expect.stringMatching(/./)]);
    const calls = seen.keys.length;
    expect(await bench.call(owner.token, tool, args)).toEqual(again);
    expect(seen.keys).toHaveLength(calls);
  });

  test('sends another key to the service for another call', async () => {
    const seen = failing(service, rpc);
    seen.isUnavailable = false;
    await bench.call(owner.token, tool, GOOD_CALLS[tool]);
    await bench.call(owner.token, tool, GOOD_CALLS[tool]);
    expect(new Set(seen.keys).size).toBe(2);
  });
});

test('the key of a lost call is refused for another call, and the lost one can still be repeated', async () => {
  const idempotency_key = `lost-${++last}`;
  const seen = failing('returns', 'flagReturn');
  const args = { ...GOOD_CALLS.flag_return, idempotency_key };
  await bench.call(owner.token, 'flag_return', args);
  seen.isUnavailable = false;
  const calls = seen.keys.length;
  for (const [tool, other] of [
    ['flag_return', { ...args, comment: 'Another comment' }],
    ['unflag_return', { ...GOOD_CALLS.unflag_return, idempotency_key }],
  ] as const) {
    const refused = await bench.call(owner.token, tool, other);
    expect(refused).toMatchObject({ isError: true, text: expect.stringMatching(/another call/) });
  }
  expect(seen.keys).toHaveLength(calls);
  expect((await bench.call(owner.token, 'flag_return', args)).isError).toBe(false);
});

test('a call whose process ended is repeated with the key of the first', async () => {
  const args = { ...GOOD_CALLS.flag_return, idempotency_key: `lost-${++last}` };
  const seen = failing('returns', 'flagReturn');
  await bench.call(owner.token, 'flag_return', args);
  // As a process leaves it that ended before it noted the failure.
  const at = (age: string) =>
    bench.database.pool.query(
      'update tool_calls set started_at = now() - $2::interval where idempotency_key = $1',
      [args.idempotency_key, age],
    );
  await at('1 second');
  seen.isUnavailable = false;
  const waiting = await bench.call(owner.token, 'flag_return', args);
  expect(waiting).toMatchObject({ isError: true, text: expect.stringMatching(/in \d+ seconds/) });
  await at('10 minutes');
  expect((await bench.call(owner.token, 'flag_return', args)).isError).toBe(false);
  expect(new Set(seen.keys).size).toBe(1);
});
