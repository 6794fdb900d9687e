import type { Client } from '@connectrpc/connect';
import type pg from 'pg';
import type { EventsService } from '../../../proto/gen/rms/events/v1/events_service_pb.ts';
import { type EventBus, eventsTopic } from '../bus/event-bus.ts';
import type { Logger } from '../log.ts';
import { MAX_AGAIN } from '../outbox/routes.ts';
import {
  beginSweep,
  countMissing,
  deleteHandled,
  duePositions,
  noteMissing,
  notePublished,
  type SweepName,
  unhandledOf,
} from './store.ts';

export interface SweepOptions extends SweepName {
  readonly pool: pg.Pool;
  readonly bus: Pick<EventBus, 'hasCaughtUp'>;
  /** Client of the service that publishes. */
  readonly events: Pick<Client<typeof EventsService>, 'listPublished' | 'publishAgain'>;
  readonly logger: Logger;
  readonly onPublished: (count: number) => void;
  readonly everyMs: number;
  /**
   * The pause after each time that an event is published again. When all pauses are used, the event is not published
   * again. Milliseconds.
   */
  readonly pausesMs: readonly number[];
  /** How long missing events are stored that never arrive. Days. */
  readonly keptDays: number;
}

/** Maximum number of pages in one sweep. A page has 1,000 events. */
const MAX_PAGES = 100;
/** Maximum number of calls in one sweep that publish events again. Together they publish 20,000 events. */
const MAX_CALLS = 100;
/** Time limit of a call that publishes events again. Milliseconds. */
const PUBLISH_MS = 30_000;
/** While this many missing events are not handled, the sweep does not search for more. */
const MAX_MISSING = 100_000;

/**
 * Finds published events that the listener did not get, and has them published again. Does nothing when a process began
 * a sweep less than a minute ago.
 *
 * An event is missing when the listener has handled all records of the bus, but not this event. While the listener has
 * a backlog, the sweep does not search, so that it never publishes the backlog twice. Rejects when the publisher, the
 * bus or the database is unavailable. Missing events that were found before that are stored.
 */
export async function sweep(o: SweepOptions, signal: AbortSignal): Promise<void> {
  const cursor = await beginSweep(o.pool, o);
  if (cursor === undefined) return;
  await findMissing(o, cursor, signal);
  await publishMissing(o, signal);
}

async function findMissing(o: SweepOptions, begin: string, signal: AbortSignal): Promise<void> {
  let cursor = begin;
  for (let page = 0; page < MAX_PAGES && !signal.aborted; page += 1) {
    const { events, nextCursor, more } = await o.events.listPublished({ cursor }, { signal });
    if (events.length === 0) return;
    const missing = await unhandledOf(o.pool, o.group, events);
    if (missing.length > 0) {
      const open = { ...o, tries: o.pausesMs.length, limit: MAX_MISSING };
      if ((await countMissing(o.pool, open)) === MAX_MISSING) return;
      // The listener has a backlog, so the next sweep begins at the same cursor. If it has none, some of these events
      // may have been in flight; `publishMissing` deletes these first.
      if (!(await hasCaughtUp(o, signal))) return;
    }
    await noteMissing(o.pool, { ...o, missing, cursor: nextCursor });
    if (!more) return;
    cursor = nextCursor;
  }
}

async function publishMissing(o: SweepOptions, signal: AbortSignal): Promise<void> {
  const tries = o.pausesMs.length;
  await deleteHandled(o.pool, o);
  if ((await duePositions(o.pool, { ...o, tries, after: 0n, limit: 1 })).length === 0) return;
  // Events that an earlier sweep published again may still be in a backlog.
  if (!(await hasCaughtUp(o, signal))) return;
  await deleteHandled(o.pool, o);
  let published = 0;
  let after = 0n;
  for (let call = 0; call < MAX_CALLS && !signal.aborted; call += 1) {
    const positions = await duePositions(o.pool, { ...o, tries, after, limit: MAX_AGAIN });
    const last = positions.at(-1);
    if (last === undefined) break;
    await o.events.publishAgain({ positions }, { signal, timeoutMs: PUBLISH_MS });
    await notePublished(o.pool, { ...o, positions });
    after = last;
    published += positions.length;
    o.onPublished(positions.length);
  }
  const { group, source } = o;
  if (published > 0) {
    o.logger.warn({ group, source, events: published }, 'lost events published again');
  }
}

function hasCaughtUp(o: SweepOptions, signal: AbortSignal): Promise<boolean> {
  return o.bus.hasCaughtUp(o.group, eventsTopic(o.source), signal);
}
