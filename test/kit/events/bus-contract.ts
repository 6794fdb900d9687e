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
 * The records of a listener, in the order of their first arrival. A bus delivers at least once: after a lost session it
 * repeats some records, which are recognised by their place in the topic.
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

/**
 * The contract of every event bus.
 *
 * @param isOnce whether a handled record is never repeated.
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

    test('carries key, value and headers', async () => {
      const { topic, group } = names();
      const received = listener();
      const subscription = await bus.subscribe({ group, topics: [topic], handle: received.handle });
      await bus.publish(topic, [record('1:2', 'zażółć')]);
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
      const subscription = await bus.subscribe({ group, topics: [topic], handle: received.handle });
      await bus.publish(topic, [record('k', 'x'.repeat(1_000_000)), record('k', 'small')]);
      await until((see) => see(received.got.length) === 2);
      expect(received.texts().map((text) => text.length)).toEqual([1_000_000, 5]);
      await subscription.stop();
    });

    test('every group gets every record', async () => {
      const { topic, group } = names();
      const [one, other] = [listener(), listener()];
      const subscriptions = await Promise.all([
        bus.subscribe({ group: `${group}-1`, topics: [topic], handle: one.handle }),
        bus.subscribe({ group: `${group}-2`, topics: [topic], handle: other.handle }),
      ]);
      await bus.publish(topic, [record('a', 'a1'), record('b', 'b1')]);
      await until((see) => see(one.got.length) === 2 && other.got.length === 2);
      await Promise.all(subscriptions.map((subscription) => subscription.stop()));
    });

    test('keeps the order within a key, over many publishes', async () => {
      const { topic, group } = names();
      const received = listener();
      const subscription = await bus.subscribe({ group, topics: [topic], handle: received.handle });
      const keys = Array.from({ length: 10 }, (_, n) => `key-${n}`);
      for (let round = 0; round < 10; round += 1) {
        await bus.publish(
          topic,
          keys.flatMap((key) => [record(key, `${2 * round}`), record(key, `${2 * round + 1}`)]),
        );
      }
      await until((see) => see(received.got.length) === 200);
      const inOrder = Array.from({ length: 20 }, (_, n) => `${n}`);
      for (const key of keys) expect(received.ofKey(key)).toEqual(inOrder);
      await subscription.stop();
    });

    test('a failing key is tried again and blocks no other', async () => {
      const { topic, group } = names();
      const received = listener();
      let isMended = false;
      let failures = 0;
      const handle = async (records: readonly ReceivedRecord[]) => {
        if (!isMended && records.some((received) => received.key === 'bad')) {
          failures += 1;
          throw new Error('not yet');
        }
        await received.handle(records);
      };
      const subscription = await bus.subscribe({ group, topics: [topic], handle });
      const bad = bus.publish(topic, [record('bad', 'bad1'), record('bad', 'bad2')]);
      // Enough keys that some share every resource that the bad one uses.
      const good = Array.from({ length: 100 }, (_, n) => record(`good-${n}`, `good-${n}`));
      await bus.publish(topic, good);
      await until((see) => see(received.got.length) === 100 && failures >= 2);
      isMended = true;
      await bad;
      await until((see) => see(received.got.length) === 102);
      expect(received.ofKey('bad')).toEqual(['bad1', 'bad2']);
      await subscription.stop();
    });

    test('stop waits for the handler in flight, and the next subscriber gets the rest', async () => {
      const { topic, group } = names();
      // Records that the first handled may arrive again at the second.
      const seen = new Set<string>();
      const first = listener(seen);
      const gate = Promise.withResolvers<void>();
      let begun = 0;
      const subscription = await bus.subscribe({
        group,
        topics: [topic],
        handle: async (records) => {
          begun += 1;
          await gate.promise;
          await first.handle(records);
        },
      });
      const published = bus.publish(topic, [record('k', '1')]);
      await until(() => begun > 0);
      const behind = bus.publish(topic, [record('k', '2')]);
      let stopped = false;
      const stopping = subscription.stop().then(() => {
        stopped = true;
      });
      expect(stopped).toBe(false);
      gate.resolve();
      await stopping;
      expect(first.texts()).toEqual(['1']);

      const second = listener(seen);
      const next = await bus.subscribe({ group, topics: [topic], handle: second.handle });
      await Promise.all([published, behind]);
      await until(() => second.texts().includes('2'));
      expect(second.texts()).toEqual(['2']);
      await next.stop();
    });

    test('records published while a known group has no subscriber wait for it', async () => {
      const { topic, group } = names();
      const before = await bus.subscribe({ group, topics: [topic], handle: async () => {} });
      await before.stop();
      const published = bus.publish(topic, [record('k', 'in between')]);
      const received = listener();
      const after = await bus.subscribe({ group, topics: [topic], handle: received.handle });
      await published;
      await until(() => received.texts().includes('in between'));
      await after.stop();
    });

    test('reports that it is reachable', async () => {
      await until(() =>
        bus.health().then(
          () => true,
          () => false,
        ),
      );
    });
  });
}
