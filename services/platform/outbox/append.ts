import { create, toBinary } from '@bufbuild/protobuf';
import { BinaryWriter, WireType } from '@bufbuild/protobuf/wire';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import type { Actor } from '../../../proto/gen/rms/common/v1/actor_pb.ts';
import { type Event, EventSchema } from '../../../proto/gen/rms/events/v1/events_pb.ts';
import { murmur2 } from '../kafka/murmur2.ts';
import { afterCommit, type Queryable } from '../postgres/postgres.ts';
import { named, rowsOf, type Sql, sql } from '../postgres/sql.ts';
import { currentTraceparent, currentTracestate } from '../telemetry/telemetry.ts';
import { eventIdAt } from './event-id.ts';
import { notifyOfCommit, notifyRelays } from './notify.ts';
import { EVENT_SCHEMA_NAME } from './parse.ts';

/** Number of shards. The relays divide them. A key always belongs to the same shard. */
export const SHARDS = 8;
/**
 * Maximum size of a snapshot in an event. An event with a larger one has no snapshot, and listeners that need it read
 * it from the service.
 */
export const MAX_SNAPSHOT_BYTES = 900_000;

export interface NewEvent {
  readonly trigger: string;
  readonly shopId: bigint;
  readonly returnId?: bigint;
  readonly revision?: bigint;
  /** Events with one key stay in order. The key is `shop:return`, `shop:shipment` or `shop:object`. */
  readonly key: string;
  readonly actor: Actor;
  /** An encoded rms.returns.v1.Return. It is copied into the event unchanged. */
  readonly snapshot?: Uint8Array;
  /** Leaves out the snapshot even if it is small enough. */
  readonly leavesSnapshotOut?: boolean;
  readonly detail?: Event['detail'];
  readonly occurredAt?: Date;
}

/**
 * Appends events to the outbox in the caller's transaction. The transaction must hold the lock on the row of the key.
 * Returns the ids of the events in order. Relays publish them after the commit, in this order within each key. A
 * rollback removes them.
 */
export async function appendEvents(tx: Queryable, events: readonly NewEvent[]): Promise<string[]> {
  if (events.length === 0) return [];
  const trace = { traceparent: currentTraceparent(), tracestate: currentTracestate() };
  const encoded = events.map((event) => encode(event, trace));
  const shards = encoded.map(({ shard }) => shard);
  // Notify the relays after the commit, if possible. PostgreSQL runs commits with a notification one after the other.
  const isNotified = afterCommit(tx, (pool) => notifyOfCommit(pool, shards));
  await tx.query(named('outbox-append', appendStatement(encoded, trace)));
  if (!isNotified) await notifyRelays(tx, shards);
  return encoded.map((event) => event.id);
}

/** The trace context of the cause. */
type Trace = Pick<Event, 'traceparent' | 'tracestate'>;

/** An event in the form in which it is stored. */
interface Encoded extends Pick<NewEvent, 'shopId' | 'trigger' | 'key'> {
  readonly id: string;
  readonly occurredAt: Date;
  readonly value: Uint8Array;
  readonly shard: number;
}

const eventRows = rowsOf<Encoded>({
  shop_id: ['bigint', ({ shopId }) => shopId],
  event_id: ['uuid', ({ id }) => id],
  trigger: ['text', ({ trigger }) => trigger],
  key: ['text', ({ key }) => key],
  occurred_at: ['timestamptz', ({ occurredAt }) => occurredAt],
  bytes: ['integer', ({ value }) => value.length],
  shard: ['smallint', ({ shard }) => shard],
});

// The statement must assign the transaction number before it draws a position. Then a relay whose snapshot does not
// contain the number took its snapshot before the position was drawn. So it has read no greater position. That is why
// the number is in a subquery below `nextval`. The sort is there too, so that positions follow the order of the array.
// The values are one bytea, because the driver would write an array of bytea as hexadecimal text.
const appendStatement = (events: readonly Encoded[], trace: Trace): Sql => sql`
with transaction as materialized (select pg_current_xact_id() as written_by),
numbered as materialized (
  select nextval('event_positions') as position, sorted.*
  from (
    select written_by, shop_id, event_id, trigger, key, occurred_at, shard,
           substring(${Buffer.concat(events.map(({ value }) => value))}::bytea
                     from (sum(bytes) over (order by n) - bytes)::integer + 1 for bytes) as value
    from transaction, ${eventRows('input', events, 'n')}
    order by n
  ) sorted
)
insert into events (shop_id, day, position, event_id, trigger, key, traceparent, tracestate, occurred_at, value, shard, written_by)
select shop_id, (now() at time zone 'utc')::date, position, event_id, trigger, key, ${trace.traceparent}, ${trace.tracestate}, occurred_at, value, shard, written_by
from numbered`;

function encode(event: NewEvent, trace: Trace): Encoded {
  const { shopId, trigger, key } = event;
  const occurredAt = event.occurredAt ?? new Date();
  const id = eventIdAt(occurredAt);
  const fits =
    event.snapshot && !event.leavesSnapshotOut && event.snapshot.length <= MAX_SNAPSHOT_BYTES;
  const message = create(EventSchema, {
    eventId: id,
    schema: EVENT_SCHEMA_NAME,
    trigger,
    shopId,
    returnId: event.returnId ?? 0n,
    revision: event.revision ?? 0n,
    occurredAt: timestampFromDate(occurredAt),
    actor: event.actor,
    ...trace,
    snapshotOmitted: event.snapshot !== undefined && !fits,
    ...(event.detail ? { detail: event.detail } : {}),
  });
  const value = toBinary(EventSchema, message);
  const snapshot = fits ? event.snapshot : undefined;
  return {
    shopId,
    id,
    trigger,
    key,
    occurredAt,
    value: snapshot ? withSnapshot(value, snapshot) : value,
    shard: murmur2(key) % SHARDS,
  };
}

/** Appends the snapshot to an encoded event. Protobuf allows fields in any order. */
function withSnapshot(event: Uint8Array, snapshot: Uint8Array): Uint8Array {
  const { number } = EventSchema.field.snapshot;
  const field = new BinaryWriter().tag(number, WireType.LengthDelimited).uint32(snapshot.length);
  return Buffer.concat([event, field.finish(), snapshot]);
}
