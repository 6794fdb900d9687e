import { randomUUID } from 'node:crypto';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import type {
  BusRecord,
  EventBus,
  ReceivedRecord,
} from '../../../services/platform/bus/event-bus.ts';
import { until } from '../until.ts';

const record = (key: string, text: string): BusRecord => ({
  key,
  value: Buffer.from(text),
  headers: { event_id: text, traceparent: '00-aa-bb-01' },
});
const textOf = (received: ReceivedRecord) => Buffer.from(received.value).toString();

/**
 * Collects the records of a listener in the order of their first arrival. A bus delivers at least once: after a lost
 * session it repeats some records. A repeated record has the same position.
 */
function collector(repeated: ReceivedRecord[], seen: Set<string>) {
  const got: ReceivedRecord[] = [];
  return {
    got,
    texts: () => got.map(textOf),
    ofKey: (key: string) => got.filter((received) => received.key === key).map(textOf),
    handle: async (records: readonly ReceivedRecord[]) => {
      for (const received of records) {
        (seen.has(received.position) ? repeated : got).push(received);
        seen.add(received.position);
      }
    },
  };
}

interface Fixture {
  readonly bus: () => EventBus;
  readonly listener: (seen?: Set<string>) => ReturnType<typeof collector>;
  readonly names: () => { readonly topic: string; readonly group: string };
}

/**
 * Tests that every event bus must pass.
 *
 * @param isOnce whether the bus never repeats a handled record.
 */
export function busContract(
  name: string,
  open: () => Promise<EventBus>,
  { isOnce = false } = {},
): void {
  describe(`event bus: ${name}`, () => {
    let bus: EventBus;
    beforeAll(async () => {
      bus = await open();
    });
    afterAll(() => bus.close());

    const repeated: ReceivedRecord[] = [];
    afterEach(() => {
      if (isOnce) expect(repeated).toEqual([]);
    });
    const listener = (seen = new Set<string>()) => collector(repeated, seen);
    const names = () => ({ topic: `test.${randomUUID()}`, group: `test-${randomUUID()}` });
    const fixture: Fixture = { bus: () => bus, listener, names };
    testRecords(fixture);
    testFailures(fixture);
    testStops(fixture);
  });
}

function testRecords({ bus, listener, names }: Fixture): void {
  test('carries key, value and headers', async () => {
    const { topic, group } = names();
    const received = listener();
    const subscription = await bus().subscribe({ group, topics: [topic], handle: received.handle });
    await bus().publish(topic, [record('1:2', 'zażółć')]);
    await until((see) => see(received.got.length) === 1);
    expect(received.got[0]).toMatchObject({
      topic,
      key: '1:2',
      headers: { event_id: 'zażółć', traceparent: '00-aa-bb-01' },
    });
    expect(received.texts()).toEqual(['zażółć']);
    await subscription.stop();
  });

  test('carries a megabyte', async () => {
    const { topic, group } = names();
    const received = listener();
    const subscription = await bus().subscribe({ group, topics: [topic], handle: received.handle });
    await bus().publish(topic, [record('k', 'x'.repeat(1_000_000)), record('k', 'small')]);
    await until((see) => see(received.got.length) === 2);
    expect(received.texts().map((text) => text.length)).toEqual([1_000_000, 5]);
    await subscription.stop();
  });

  test('every group receives every record', async () => {
    const { topic, group } = names();
    const [one, other] = [listener(), listener()];
    const subscriptions = await Promise.all([
      bus().subscribe({ group: `${group}-1`, topics: [topic], handle: one.handle }),
      bus().subscribe({ group: `${group}-2`, topics: [topic], handle: other.handle }),
    ]);
    await bus().publish(topic, [record('a', 'a1'), record('b', 'b1')]);
    await until((see) => see(one.got.length) === 2 && other.got.length === 2);
    await Promise.all(subscriptions.map((subscription) => subscription.stop()));
  });

  test('delivers the records of a key in the order of their publishes', async () => {
    const { topic, group } = names();
    const received = listener();
    const subscription = await bus().subscribe({ group, topics: [topic], handle: received.handle });
    const keys = Array.from({ length: 10 }, (_, n) => `key-${n}`);
    for (let round = 0; round < 10; round += 1) {
      await bus().publish(
        topic,
        keys.flatMap((key) => [record(key, `${2 * round}`), record(key, `${2 * round + 1}`)]),
      );
    }
    await until((see) => see(received.got.length) === 200);
    const inOrder = Array.from({ length: 20 }, (_, n) => `${n}`);
    for (const key of keys) expect(received.ofKey(key)).toEqual(inOrder);
    await subscription.stop();
  });
}

function testFailures({ bus, listener, names }: Fixture): void {
  test('retries a failing key, and delivers other keys during that', async () => {
    const { topic, group } = names();
    const received = listener();
    let canSucceed = false;
    let failures = 0;
    const handle = async (records: readonly ReceivedRecord[]) => {
      if (!canSucceed && records.some((received) => received.key === 'bad')) {
        failures += 1;
        throw new Error('not yet');
      }
      await received.handle(records);
    };
    const subscription = await bus().subscribe({ group, topics: [topic], handle });
    const bad = bus().publish(topic, [record('bad', 'bad1'), record('bad', 'bad2')]);
    // So many keys that some share a partition with the failing key.
    const good = Array.from({ length: 100 }, (_, n) => record(`good-${n}`, `good-${n}`));
    await bus().publish(topic, good);
    await until((see) => see(received.got.length) === 100 && failures >= 2);
    canSucceed = true;
    await bad;
    await until((see) => see(received.got.length) === 102);
    expect(received.ofKey('bad')).toEqual(['bad1', 'bad2']);
    await subscription.stop();
  });

  test('the health check succeeds', async () => {
    await until(() =>
      bus()
        .health()
        .then(
          () => true,
          () => false,
        ),
    );
  });
}

function testStops({ bus, listener, names }: Fixture): void {
  test('a stop waits for the running handler, and the next subscriber gets the remaining records', async () => {
    const { topic, group } = names();
    // The second subscriber may receive records again that the first has handled.
    const seen = new Set<string>();
    const first = listener(seen);
    const gate = Promise.withResolvers<void>();
    let started = 0;
    const subscription = await bus().subscribe({
      group,
      topics: [topic],
      handle: async (records) => {
        started += 1;
        await gate.promise;
        await first.handle(records);
      },
    });
    const published = bus().publish(topic, [record('k', '1')]);
    await until(() => started > 0);
    const behind = bus().publish(topic, [record('k', '2')]);
    let stopped = false;
    const stopping = subscription.stop().then(() => {
      stopped = true;
    });
    expect(stopped).toBe(false);
    gate.resolve();
    await stopping;
    expect(first.texts()).toEqual(['1']);

    const second = listener(seen);
    const next = await bus().subscribe({ group, topics: [topic], handle: second.handle });
    await Promise.all([published, behind]);
    await until(() => second.texts().includes('2'));
    expect(second.texts()).toEqual(['2']);
    await next.stop();
  });

  test('keeps records for a group that has no subscriber', async () => {
    const { topic, group } = names();
    const before = await bus().subscribe({ group, topics: [topic], handle: async () => {} });
    await before.stop();
    const published = bus().publish(topic, [record('k', 'in between')]);
    const received = listener();
    const after = await bus().subscribe({ group, topics: [topic], handle: received.handle });
    await published;
    await until(() => received.texts().includes('in between'));
    await after.stop();
  });
}
