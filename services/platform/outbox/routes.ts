import { Code, ConnectError, type ConnectRouter, type ServiceImpl } from '@connectrpc/connect';
import type pg from 'pg';
import { z } from 'zod';
import { EventsService } from '../../../proto/gen/rms/events/v1/events_service_pb.ts';
import type { EventBus } from '../bus/event-bus.ts';
import { invalidField } from '../errors.ts';
import { parseInput } from '../input.ts';
import type { Logger } from '../log.ts';
import { SHARDS } from './append.ts';
import { FIRST_CURSOR, type ListCursor, listPublished } from './published.ts';
import { eventsAt } from './store.ts';

/** Maximum number of positions in one call. */
export const MAX_AGAIN = 200;
/** Maximum number of events that are read at once. Each may be as large as the bus allows. */
const PART = 20;

const again = z.object({
  positions: z
    .array(z.bigint().refine((position) => position > 0n, 'must be greater than 0'))
    .min(1, 'must not be empty')
    .max(MAX_AGAIN, `must be at most ${MAX_AGAIN}`),
});

/** Serves the EventsService of an outbox. With it, listeners find events that the bus has lost. */
export function eventsRoutes(o: {
  readonly pool: pg.Pool;
  readonly bus: Pick<EventBus, 'publish'>;
  readonly topic: string;
  readonly logger: Logger;
}): (router: ConnectRouter) => void {
  const handlers: ServiceImpl<typeof EventsService> = {
    async listPublished({ cursor }) {
      const page = await listPublished(o.pool, parseCursor(cursor));
      return { events: [...page.events], nextCursor: page.next.join('.'), more: page.isMore };
    },
    async publishAgain(request, { signal }) {
      const { positions } = parseInput(again, request);
      // In order, so that events of one key keep theirs.
      const rest = positions.toSorted((a, b) => (a < b ? -1 : 1));
      let published = 0;
      while (rest.length > 0) {
        // A caller that has gone counts nothing, and asks for all of them again.
        signal.throwIfAborted();
        published += await publishPart(o, rest.splice(0, PART));
      }
      return { published };
    },
  };
  return (router) => router.service(EventsService, handlers);
}

/** Publishes the events at these positions again. Returns their number. */
async function publishPart(
  o: Parameters<typeof eventsRoutes>[0],
  positions: readonly bigint[],
): Promise<number> {
  const events = await eventsAt(o.pool, positions);
  const records = events.map(({ record }) => record);
  try {
    if (records.length > 0) await o.bus.publish(o.topic, records);
  } catch (error) {
    o.logger.warn({ err: error, topic: o.topic }, 'events not published again');
    throw new ConnectError('the event bus may lack some of these events', Code.Unavailable);
  }
  return records.length;
}

/** Parses a cursor. @throws DomainError INVALID_ARGUMENT for a text that ListPublished did not return. */
function parseCursor(cursor: string): ListCursor {
  if (cursor === '') return FIRST_CURSOR;
  const parts = cursor.split('.');
  if (parts.length !== SHARDS || !parts.every((part) => /^\d{1,18}$/.test(part))) {
    throw invalidField('cursor', 'must be a cursor returned by this service');
  }
  return parts.map(BigInt);
}
