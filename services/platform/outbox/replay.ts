import type pg from 'pg';
import type { EventBus } from '../bus/event-bus.ts';
import { storedEvents } from './store.ts';

const PAGE = 200;

export interface ReplayOptions {
  readonly pool: pg.Pool;
  readonly bus: EventBus;
  readonly topic: string;
  /** Only events that were stored at or after this time. */
  readonly from: Date;
  /** Only events that were stored before this time. */
  readonly to: Date;
  readonly onProgress?: (published: number) => void;
}

/**
 * Publishes stored events again, for a bus that lost its data. Listeners skip events that they have already handled. So
 * the range may be too wide, and the call may be repeated. Returns the number of published events.
 */
export async function replayEvents(o: ReplayOptions): Promise<number> {
  let published = 0;
  let after = 0n;
  for (;;) {
    const events = await storedEvents(o.pool, { from: o.from, to: o.to, after, limit: PAGE });
    const last = events.at(-1);
    if (!last) return published;
    await o.bus.publish(
      o.topic,
      events.map((event) => event.record),
    );
    after = last.position;
    published += events.length;
    o.onProgress?.(published);
  }
}
