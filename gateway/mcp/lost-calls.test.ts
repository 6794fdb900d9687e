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

/** The tools that change data of a service, and their RPC. */
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
  ['create_webhook', 'webhooks', 'createSubscription'],
  ['update_webhook', 'webhooks', 'updateSubscription'],
  ['test_webhook', 'webhooks', 'sendTest'],
  ['rotate_webhook_secret', 'webhooks', 'rotateSecret'],
  ['start_webhook_replay', 'webhooks', 'startReplay'],
] as const satisfies readonly (readonly [ActionName, keyof FakeServices, string])[];

let last = 0;

/** Makes the RPC fail while `isUnavailable`, and collects the keys that it receives. */
function failing(service: keyof FakeServices, rpc: string) {
  const received = { isUnavailable: true, keys: [] as string[] };
  const before: unknown = Reflect.get(bench.services[service], rpc);
  Object.assign(bench.services[service], {
    [rpc]: (request: { idempotencyKey: string }, context: unknown) => {
      received.keys.push(request.idempotencyKey);
      if (received.isUnavailable) throw new ConnectError('gone', Code.Unavailable);
      return typeof before === 'function' ? before(request, context) : {};
    },
  });
  return received;
}

describe.each(WRITES)('%s whose response was lost', (tool, service, rpc) => {
  test('can be repeated immediately: the service gets the same key, and the output is stored', async () => {
    const args = { ...GOOD_CALLS[tool], idempotency_key: `lost-${++last}` };
    const received = failing(service, rpc);
    const first = await bench.call(owner.token, tool, args);
    expect(first).toMatchObject({ isError: true, text: expect.stringMatching(/same idempotency/) });
    received.isUnavailable = false;
    const again = await bench.call(owner.token, tool, args);
    expect([again.isError, again.text]).toEqual([false, expect.any(String)]);
    expect(received.keys.length).toBeGreaterThan(1);
    expect([...new Set(received.keys)]).toEqual([expect.stringMatching(/./)]);
    const calls = received.keys.length;
    expect(await bench.call(owner.token, tool, args)).toEqual(again);
    expect(received.keys).toHaveLength(calls);
  });

  test('gets another key for another call', async () => {
    const received = failing(service, rpc);
    received.isUnavailable = false;
    await bench.call(owner.token, tool, GOOD_CALLS[tool]);
    await bench.call(owner.token, tool, GOOD_CALLS[tool]);
    expect(new Set(received.keys).size).toBe(2);
  });
});

test('another call cannot use the key of a lost call, and the lost call can still be repeated', async () => {
  const idempotency_key = `lost-${++last}`;
  const received = failing('returns', 'flagReturn');
  const args = { ...GOOD_CALLS.flag_return, idempotency_key };
  await bench.call(owner.token, 'flag_return', args);
  received.isUnavailable = false;
  const calls = received.keys.length;
  for (const [tool, other] of [
    ['flag_return', { ...args, comment: 'Another comment' }],
    ['unflag_return', { ...GOOD_CALLS.unflag_return, idempotency_key }],
  ] as const) {
    const rejected = await bench.call(owner.token, tool, other);
    expect(rejected).toMatchObject({ isError: true, text: expect.stringMatching(/another call/) });
  }
  expect(received.keys).toHaveLength(calls);
  expect((await bench.call(owner.token, 'flag_return', args)).isError).toBe(false);
});

test('a repeat of a call whose process died sends the same key to the service', async () => {
  const args = { ...GOOD_CALLS.flag_return, idempotency_key: `lost-${++last}` };
  const received = failing('returns', 'flagReturn');
  await bench.call(owner.token, 'flag_return', args);
  // The row looks as if the process had died during the call.
  const setAge = (age: string) =>
    bench.database.pool.query(
      'update tool_calls set started_at = now() - $2::interval where idempotency_key = $1',
      [args.idempotency_key, age],
    );
  await setAge('1 second');
  received.isUnavailable = false;
  const waiting = await bench.call(owner.token, 'flag_return', args);
  expect(waiting).toMatchObject({
    isError: true,
    text: expect.stringMatching(/after \d+ seconds/),
  });
  await setAge('10 minutes');
  expect((await bench.call(owner.token, 'flag_return', args)).isError).toBe(false);
  expect(new Set(received.keys).size).toBe(1);
});
