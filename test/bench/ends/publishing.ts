import { setTimeout as sleep } from 'node:timers/promises';
import { monotonicMs } from '../stats.ts';

/** Publishes an event for each of the shops. Returns their ids. */
type Publish = (shops: readonly bigint[]) => Promise<string[]>;

export interface Saturation {
  readonly shops: readonly bigint[];
  /** Maximum number of events in flight. */
  readonly window: number;
  /** Number of events that are published together. */
  readonly batch: number;
  /** Number of concurrent callers. */
  readonly writers: number;
}

/** The methods of a process that publishes events. Shops take turns. */
export function createPublisher(publish: Publish) {
  let published = 0;
  let received = 0;
  let isSaturating = false;
  let writers: Promise<void>[] = [];

  const next = async (shops: readonly bigint[], count: number): Promise<string[]> => {
    const of = Array.from({ length: count }, (_, at) => shops[(published + at) % shops.length]);
    published += count;
    return publish(of.map((shop) => shop ?? 1n));
  };
  return {
    /** Publishes events one by one at a fixed rate. Returns the scheduled time of each, by event id. */
    async flow(o: { shops: readonly bigint[]; perSecond: number; count: number }) {
      const times = new Map<string, number>();
      const started = monotonicMs();
      const pending: Promise<void>[] = [];
      for (let at = 0; at < o.count; at += 1) {
        const scheduled = started + (at * 1_000) / o.perSecond;
        const early = scheduled - monotonicMs();
        if (early > 0) await sleep(early);
        pending.push(
          next(o.shops, 1).then(([id = '']) => {
            times.set(id, scheduled);
          }),
        );
      }
      await Promise.all(pending);
      return times;
    },
    /** Keeps this many events in flight until it is stopped. */
    saturate(o: Saturation) {
      isSaturating = true;
      const before = published - received;
      const writer = async () => {
        while (isSaturating) {
          if (published - received - before + o.batch > o.window) await sleep(2);
          else await next(o.shops, o.batch);
        }
      };
      writers = Array.from({ length: o.writers }, writer);
    },
    /** Sets the number of deliveries that the sink has received. */
    received(count: number) {
      received = count;
    },
    async stop(_: undefined) {
      isSaturating = false;
      await Promise.all(writers);
      return published;
    },
    /** Publishes this many events in large parts. */
    async fill(o: { shops: readonly bigint[]; count: number; batch: number }) {
      for (let left = o.count; left > 0; left -= o.batch) {
        await next(o.shops, Math.min(left, o.batch));
      }
    },
  };
}

export type PublisherMethods = ReturnType<typeof createPublisher>;
