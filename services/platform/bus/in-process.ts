import { randomUUID } from 'node:crypto';
import type { Backoff } from '../backoff.ts';
import { createDispatcher, type Delivery, type Dispatcher } from './dispatcher.ts';
import type { BusRecord, EventBus, ReceivedRecord, Subscription } from './event-bus.ts';

export interface InProcessBusOptions {
  /**
   * Groups that will subscribe. Records published before that wait for them. Without this list, an event published
   * while a service starts would be lost.
   */
  readonly groups?: readonly { readonly group: string; readonly topics: readonly string[] }[];
  readonly onFailure?: (group: string, error: unknown) => void;
  /** The pause of a key after its failures in a row. */
  readonly backoff?: Backoff;
}

interface Group {
  topics: Set<string>;
  /** Records that wait for a subscriber. */
  waiting: Delivery[];
  dispatcher: Dispatcher | undefined;
}

/**
 * A bus inside one process. `publish` resolves only after the handler of every group has handled the records, so the
 * bus never holds a record that is no longer in the publisher's outbox. Once a group is known, its records wait while
 * it has no subscriber.
 */
export function createInProcessBus(o: InProcessBusOptions = {}): EventBus {
  const groups = new Map<string, Group>();
  const rejections = new Set<(error: Error) => void>();
  const run = randomUUID();
  let published = 0;
  let closed = false;

  for (const { group, topics } of o.groups ?? []) remember(group, topics);

  function remember(name: string, topics: readonly string[]): Group {
    const group = groups.get(name) ?? { topics: new Set(), waiting: [], dispatcher: undefined };
    for (const topic of topics) group.topics.add(topic);
    groups.set(name, group);
    return group;
  }

  function deliver(group: Group, records: readonly ReceivedRecord[]): Promise<void> {
    return new Promise((resolve) => {
      let left = records.length;
      const done = () => {
        left -= 1;
        if (left === 0) resolve();
      };
      const deliveries = records.map((record) => ({ record, done }));
      if (group.dispatcher) group.dispatcher.push(deliveries);
      else group.waiting.push(...deliveries);
    });
  }

  /** Rejects when the bus closes first: it is then unknown which records were handled. */
  function orClosed(work: Promise<unknown>): Promise<void> {
    return new Promise((resolve, reject) => {
      rejections.add(reject);
      work.then(() => resolve(), reject).finally(() => rejections.delete(reject));
    });
  }

  function assertOpen(): void {
    if (closed) throw new Error('the event bus is closed');
  }

  return {
    async publish(topic, records) {
      assertOpen();
      if (records.length === 0) return;
      const received = records.map((record: BusRecord) => {
        published += 1;
        return { ...record, topic, position: `${run}:${published}` };
      });
      const listening = [...groups.values()].filter((group) => group.topics.has(topic));
      await orClosed(Promise.all(listening.map((group) => deliver(group, received))));
    },

    async subscribe(s: Subscription) {
      assertOpen();
      const group = remember(s.group, s.topics);
      if (group.dispatcher) throw new Error(`group ${s.group} has a subscriber in this process`);
      const dispatcher = createDispatcher({
        ...o,
        handle: s.handle,
        onFailure: (error) => o.onFailure?.(s.group, error),
      });
      group.dispatcher = dispatcher;
      dispatcher.push(group.waiting.splice(0));
      return {
        async stop() {
          if (group.dispatcher !== dispatcher) return;
          // New records wait from now on. Records in flight are completed; the remaining ones go in front of the new
          // ones.
          group.dispatcher = undefined;
          group.waiting.unshift(...(await dispatcher.stop()));
        },
      };
    },

    // `publish` resolves only after every group has handled the records.
    hasCaughtUp: async () => true,

    async health() {
      assertOpen();
    },

    async close() {
      closed = true;
      await Promise.all([...groups.values()].map((group) => group.dispatcher?.stop()));
      for (const reject of rejections) reject(new Error('the event bus was closed'));
    },
  };
}
