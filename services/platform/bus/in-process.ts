import { randomUUID } from 'node:crypto';
import { createDispatcher, type Delivery, type Dispatcher } from './dispatcher.ts';
import type { BusRecord, EventBus, ReceivedRecord, Subscription } from './event-bus.ts';

export interface InProcessBusOptions {
  /**
   * Groups that will subscribe. What is published before they do waits for them; without this
   * an event published while a service is still starting would reach nobody.
   */
  readonly groups?: readonly { readonly group: string; readonly topics: readonly string[] }[];
  readonly onFailure?: (group: string, error: unknown) => void;
  readonly firstBackoffMs?: number;
  readonly maxBackoffMs?: number;
}

interface Group {
  topics: Set<string>;
  /** What waits for a subscriber. */
  waiting: Delivery[];
  dispatcher: Dispatcher | undefined;
}

/**
 * A bus inside one process. `publish` resolves only when every group's handler has dealt with the
 * records, so the bus holds nothing that the publisher's outbox does not hold too. A group once
 * known stays known: while it has no subscriber its records wait.
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

  /** Rejects when the bus closes first: then nobody knows which records were dealt with. */
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
          // From now on records wait; those in flight are dealt with, the others go before them.
          group.dispatcher = undefined;
          group.waiting.unshift(...(await dispatcher.stop()));
        },
      };
    },

    // What it has published is dealt with.
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
