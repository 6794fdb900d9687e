import { Code, ConnectError } from '@connectrpc/connect';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { FAKE } from '../../test/support/gateway/fake-objects.ts';
import { PROCESS, type Reads, WRITES, type Write } from '../../test/support/gateway/lost-writes.ts';
import {
  type McpBench,
  type SignedInMember,
  startMcpBench,
} from '../../test/support/gateway/mcp.ts';

let bench: McpBench;
let owner: SignedInMember;
beforeAll(async () => {
  bench = await startMcpBench();
  owner = await bench.member('owner');
}, 60_000);
afterAll(() => bench?.stop());
afterEach(() => bench.resetServices());

const unavailable = (): never => {
  throw new ConnectError('gone', Code.Unavailable);
};

let last = 0;

/** Makes a call whose write RPC fails without an answer. Returns the function that repeats it. */
async function lost(write: Write) {
  const args = { ...write.args, idempotency_key: `resumed-${++last}` };
  const [service, rpc] = write.rpc;
  set(write.untouched());
  Object.assign(bench.services[service], { [rpc]: unavailable });
  const first = await bench.call(owner.token, write.tool, args);
  expect(first).toMatchObject({ isError: true, text: expect.stringMatching(/same idempotency/) });
  bench.resetServices();
  const acted = { times: 0 };
  const before: unknown = Reflect.get(bench.services[service], rpc);
  Object.assign(bench.services[service], {
    [rpc]: (request: never, context: never) => {
      acted.times += 1;
      return typeof before === 'function' ? before(request, context) : {};
    },
  });
  return { acted, repeat: () => bench.call(owner.token, write.tool, args), args };
}

function set(reads: Reads): void {
  for (const [service, answers] of Object.entries(reads)) {
    Object.assign(Reflect.get(bench.services, service), answers);
  }
}

/** Moves the first call so far into the past that it cannot be running any more. */
async function later(): Promise<void> {
  await bench.database.pool.query(
    `update tool_calls set started_at = started_at - interval '10 minutes'`,
  );
}

describe.each([...WRITES, PROCESS].map((write) => [write.tool, write] as const))(
  '%s whose response was lost',
  (_, write) => {
    test('is refused until the first call cannot be running any more', async () => {
      const { acted, repeat } = await lost(write);
      set(write.untouched());
      const again = await repeat();
      expect(again.isError).toBe(true);
      expect(again.text).toMatch(/its end was lost.* in \d\d seconds/);
      expect(acted.times).toBe(0);
    });

    test('is executed by the repeat when nothing was done', async () => {
      const { acted, repeat } = await lost(write);
      await later();
      set(write.untouched());
      const again = await repeat();
      expect([again.isError, again.text]).toEqual([false, expect.any(String)]);
      expect(acted.times).toBe(1);
      expect(await repeat()).toEqual(again);
      expect(acted.times).toBe(1);
    });

    test('returns what was done, and is not executed again', async () => {
      const { acted, repeat } = await lost(write);
      await later();
      set(write.done());
      const again = await repeat();
      expect([again.isError, again.text]).toEqual([false, expect.any(String)]);
      expect(acted.times).toBe(0);
    });

    test('is not executed again when reconciling fails', async () => {
      const { acted, repeat } = await lost(write);
      await later();
      set(allUnavailable(write.untouched()));
      expect((await repeat()).isError).toBe(true);
      // The failed reads changed nothing, so the next repeat need not wait.
      set(write.done());
      expect((await repeat()).isError).toBe(false);
      expect(acted.times).toBe(0);
    });
  },
);

function allUnavailable(reads: Reads): Reads {
  return Object.fromEntries(
    Object.entries(reads).map(([service, answers]) => [
      service,
      Object.fromEntries(Object.keys(answers).map((name) => [name, unavailable])),
    ]),
  );
}

describe.each(WRITES.map((write) => [write.tool, write] as const))(
  '%s whose response was lost',
  (_, write) => {
    test("never overwrites somebody else's later change", async () => {
      const { acted, repeat } = await lost(write);
      await later();
      set(write.changedSince());
      for (const again of [await repeat(), await repeat()]) {
        expect(again.isError).toBe(true);
        expect(again.text).toMatch(/^It is not known whether .*new idempotency_key/s);
        expect(again.text).toContain(write.whatToRead);
      }
      expect(acted.times).toBe(0);
    });
  },
);

test('process_return whose run failed is not queued again by a repeat', async () => {
  const { acted, repeat } = await lost(PROCESS);
  await later();
  set(PROCESS.changedSince());
  expect(await repeat()).toMatchObject({ isError: false, data: { result: 'already_queued' } });
  expect(acted.times).toBe(0);
});

test('dispositions with images are not taken for recorded, because images cannot be read', async () => {
  const [item] = [{ line_item_id: Number(FAKE.lineItem), note: 'Torn' }];
  const base = WRITES.find(({ tool }) => tool === 'record_dispositions');
  if (!base) throw new Error('no such case');
  const images = { ...base, args: { items: [{ ...item, images: ['https://a.example/1'] }] } };
  const { acted, repeat } = await lost(images);
  await later();
  set(base.done());
  expect((await repeat()).text).toMatch(/^It is not known/);
  expect(acted.times).toBe(0);
});

test('a batch does not replace the disposition of a line that was recorded since', async () => {
  const base = WRITES.find(({ tool }) => tool === 'record_dispositions');
  if (!base) throw new Error('no such case');
  const [item] = (base.args as { items?: readonly object[] }).items ?? [];
  const other = { ...item, line_item_id: Number(FAKE.lineItem) + 1 };
  const { acted, repeat } = await lost({ ...base, args: { items: [item, other] } });
  await later();
  // The first line has a disposition, the other one does not.
  set(base.changedSince());
  expect((await repeat()).text).toMatch(/^It is not known/);
  expect(acted.times).toBe(0);
});

test.each([...WRITES, PROCESS].map((write) => [write.tool, write] as const))(
  '%s that was not sent to the service may be made again at once',
  async (_, write) => {
    const args = { ...write.args, idempotency_key: `resumed-${++last}` };
    set(allUnavailable(write.untouched()));
    expect((await bench.call(owner.token, write.tool, args)).isError).toBe(true);
    bench.resetServices();
    set(write.untouched());
    expect(await bench.call(owner.token, write.tool, args)).toMatchObject({ isError: false });
  },
);
