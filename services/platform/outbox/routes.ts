import { Code, ConnectError, type ConnectRouter, type ServiceImpl } from '@connectrpc/connect';
import type pg from 'pg';
import { z } from 'zod';
import { EventsService } from '../../../proto/gen/rms/events/v1/events_service_pb.ts';
import type { EventBus } from '../bus/event-bus.ts';
import type { Queryable } from '../postgres/postgres.ts';
import type { Logger } from '../telemetry/log.ts';
import { invalidField } from '../values/errors.ts';
import { parseInput } from '../values/input.ts';
import { SHARDS } from './append.ts';
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

/** An event that the bus has acknowledged. */
interface PublishedEvent {
  readonly position: bigint;
  readonly shopId: bigint;
  readonly eventId: string;
  /** UTC day of the time of the event, YYYY-MM-DD. */
  readonly day: string;
}

/** For each shard, the position up to which its events were listed. */
export type ListCursor = readonly bigint[];

export const FIRST_CURSOR: ListCursor = Array.from({ length: SHARDS }, () => 0n);

interface PublishedPage {
  readonly events: readonly PublishedEvent[];
  readonly next: ListCursor;
  readonly isMore: boolean;
}

/** Maximum number of events of one shard on a page: 1,000 for all 8 shards together. */
const SHARD_PAGE = 125;

/**
 * The statement computes `published.position`. Every event of the shard up to this position is published, and no open
 * transaction can still add one below it. `outbox_progress` has the waiting events and open transactions, and the
 * position stays below all of them. A transaction that has ended does not count when all of its events are published.
 */
const LIST = `
with cursor as (
  select n - 1 as shard, after from unnest($1::bigint[]) with ordinality as input (after, n)
)
select cursor.shard::smallint as shard, e.*
  from cursor
  join outbox_progress p on p.shard = cursor.shard
 cross join lateral (
   select min(o.after) filter (where not o.has_ended) as open_after,
          min(o.after) filter (where o.has_ended) as ended_after,
          array_agg(o.xid) filter (where o.has_ended) as ended
     from (
       select xid, after, pg_visible_in_snapshot(xid, pg_current_snapshot()) as has_ended
         from unnest(p.open, p.open_after) as u (xid, after)
     ) o
 ) transactions
 cross join lateral (
   select least(
     p.position,
     transactions.open_after,
     (select min(waits) - 1 from unnest(p.waiting) as waits),
     (select min(late.position) - 1 from events late
       where late.shard = p.shard and late.position > transactions.ended_after and late.position <= p.position
         and late.written_by = any (transactions.ended))
   ) as position
 ) published
 cross join lateral (
   select stored.position, stored.shop_id, stored.event_id, (stored.occurred_at at time zone 'utc')::date as day
     from events stored
    where stored.shard = cursor.shard and stored.position > cursor.after and stored.position <= published.position
    order by stored.position limit $2
 ) e
 order by cursor.shard, e.position`;

/** Lists at most 1,000 published events after the cursor, ordered by shard and position. */
export async function listPublished(db: Queryable, cursor: ListCursor): Promise<PublishedPage> {
  const { rows } = await db.query<{
    shard: number;
    position: bigint;
    shop_id: bigint;
    event_id: string;
    day: string;
  }>({ name: 'outbox-list-published', text: LIST, values: [cursor, SHARD_PAGE] });
  const byShard = Map.groupBy(rows, ({ shard }) => shard);
  return {
    events: rows.map((row) => ({
      position: row.position,
      shopId: row.shop_id,
      eventId: row.event_id,
      day: row.day,
    })),
    next: cursor.map((after, shard) => byShard.get(shard)?.at(-1)?.position ?? after),
    isMore: [...byShard.values()].some((ofShard) => ofShard.length === SHARD_PAGE),
  };
}
