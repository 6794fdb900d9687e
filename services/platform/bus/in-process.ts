import { randomUUID } from 'node:crypto';
import { RecordBatches, type RecordBatchesOptions } from '../kafka/record-batches.ts';
import type { Backoff } from '../process/backoff.ts';
import type { BusRecord, EventBus, ReceivedRecord, Subscription } from './event-bus.ts';
import type { PendingRecord } from './key-queues.ts';

export interface InProcessBusOptions {
  /**
   * Groups that will subscribe later. Their records wait until then. Without this list, an event that is published
   * while a service starts would be lost.
   */
  readonly groups?: readonly { readonly group: string; readonly topics: readonly string[] }[];
  readonly onFailure?: (group: string, error: unknown) => void;
  /** The pause of a key after it failed. */
  readonly backoff?: Backoff;
}

/** A group of listeners. Its records wait while it has no subscriber. */
class Group {
  readonly topics = new Set<string>();
  readonly #waiting: PendingRecord[] = [];
  #batches: RecordBatches | undefined;

  get hasSubscriber(): boolean {
    return this.#batches !== undefined;
  }

  /** Resolves when the records are handled. */
  deliver(records: readonly ReceivedRecord[]): Promise<void> {
    return new Promise((resolve) => {
      let left = records.length;
      const done = () => {
        left -= 1;
        if (left === 0) resolve();
      };
      const pending = records.map((record) => ({ record, done }));
      if (this.#batches) this.#batches.push(pending);
      else this.#waiting.push(...pending);
    });
  }

  subscribe(o: RecordBatchesOptions): { stop(): Promise<void> } {
    const batches = new RecordBatches(o);
    this.#batches = batches;
    batches.push(this.#waiting.splice(0));
    return {
      stop: async () => {
        if (this.#batches !== batches) return;
        // From here on new records wait. Records in flight are completed. The old records that are left go before the
        // new ones.
        this.#batches = undefined;
        this.#waiting.unshift(...(await batches.stop()));
      },
    };
  }

  async stop(): Promise<void> {
    await this.#batches?.stop();
  }
}

/**
 * A bus inside one process.
 *
 * `publish` resolves only after the handler of every group has handled the records. So every record that the bus has is
 * also in the publisher's outbox. Once a group has subscribed, its records wait while it has no subscriber.
 */
export function createInProcessBus(o: InProcessBusOptions = {}): EventBus {
  const groups = new Map<string, Group>();
  const rejections = new Set<(error: Error) => void>();
  const run = randomUUID();
  let published = 0;
  let isClosed = false;

  for (const { group, topics } of o.groups ?? []) groupOf(group, topics);

  function groupOf(name: string, topics: readonly string[]): Group {
    const group = groups.get(name) ?? new Group();
    for (const topic of topics) group.topics.add(topic);
    groups.set(name, group);
    return group;
  }

  function assertOpen(): void {
    if (isClosed) throw new Error('the event bus is closed');
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
      const handled = Promise.all(listening.map((group) => group.deliver(received)));
      await orClosed(handled, rejections);
    },

    async subscribe(s: Subscription) {
      assertOpen();
      const group = groupOf(s.group, s.topics);
      if (group.hasSubscriber) throw new Error(`group ${s.group} already has a subscriber`);
      const onFailure = (error: unknown): void => o.onFailure?.(s.group, error);
      return group.subscribe({ ...o, handle: s.handle, onFailure });
    },

    // Always true, because `publish` resolves only after every group has handled the records.
    hasCaughtUp: async () => true,

    async health() {
      assertOpen();
    },

    async close() {
      isClosed = true;
      await Promise.all([...groups.values()].map((group) => group.stop()));
      for (const reject of rejections) reject(new Error('the event bus was closed'));
    },
  };
}

/**
 * Waits for the work. Rejects when the bus closes before its end, because nobody then knows which records were handled.
 */
function orClosed(work: Promise<unknown>, rejections: Set<(error: Error) => void>): Promise<void> {
  return new Promise((resolve, reject) => {
    rejections.add(reject);
    work.then(() => resolve(), reject).finally(() => rejections.delete(reject));
  });
}
