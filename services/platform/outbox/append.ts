import { create, toBinary } from '@bufbuild/protobuf';
import { BinaryWriter, WireType } from '@bufbuild/protobuf/wire';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import type { Actor } from '../../../proto/gen/rms/common/v1/actor_pb.ts';
import { type Event, EventSchema } from '../../../proto/gen/rms/events/v1/events_pb.ts';
import { murmur2 } from '../bus/murmur2.ts';
import { afterCommit, type Queryable } from '../postgres.ts';
import { named, rowsOf, type Sql, sql } from '../sql.ts';
import { currentTraceparent } from '../telemetry.ts';
import { eventIdAt } from './event-id.ts';
import { notifyOfCommit, notifyRelays } from './notify.ts';
import { EVENT_SCHEMA_NAME } from './parse.ts';

/** Number of shards that the relays divide. A key always belongs to the same shard. */
export const SHARDS = 8;
/** An event contains no snapshot that is larger. Listeners that need the snapshot read it from the service. */
export const MAX_SNAPSHOT_BYTES = 900_000;

export interface NewEvent {
  readonly trigger: string;
  readonly shopId: bigint;
  readonly returnId?: bigint;
  readonly revision?: bigint;
  /** Events of one key stay in order: `shop:return`, `shop:shipment` or `shop:object`. */
  readonly key: string;
  readonly actor: Actor;
  /** An encoded rms.returns.v1.Return, copied into the event unchanged. */
  readonly snapshot?: Uint8Array;
  /** Leaves the snapshot out although it would fit. */
  readonly leavesSnapshotOut?: boolean;
  readonly detail?: Event['detail'];
  readonly occurredAt?: Date;
}

/**
 * Appends events to the outbox in the caller's transaction, which holds the lock on the row of the key. Returns their
 * ids in order. They are published after the commit, in this order within a key. A rollback removes them.
 */
export async function appendEvents(tx: Queryable, events: readonly NewEvent[]): Promise<string[]> {
  if (events.length === 0) return [];
  const traceparent = currentTraceparent();
  const encoded = events.map((event) => encode(event, traceparent));
  const shards = encoded.map(({ shard }) => shard);
  // Relays are notified after the commit if possible, because commits with a notification run one after the other.
  const isNotified = afterCommit(tx, (pool) => notifyOfCommit(pool, shards));
  await tx.query(named('outbox-append', appendStatement(encoded, traceparent)));
  if (!isNotified) await notifyRelays(tx, shards);
  return encoded.map((event) => event.id);
}

/** An event as it is stored. */
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

// The statement assigns the transaction number before it draws a position. If a relay's snapshot does not contain the
// number, the relay took the snapshot before the position was drawn, so it has read no greater position. Therefore the
// number must be in a subquery below `nextval`. The sort must be there too, so that positions follow the order of the
// array. The values are one bytea, because the driver would write an array of bytea as hexadecimal text.
const appendStatement = (events: readonly Encoded[], traceparent: string): Sql => sql`
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
insert into events (shop_id, day, position, event_id, trigger, key, traceparent, occurred_at, value, shard, written_by)
select shop_id, (now() at time zone 'utc')::date, position, event_id, trigger, key, ${traceparent}, occurred_at, value, shard, written_by
from numbered`;

function encode(event: NewEvent, traceparent: string): Encoded {
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
    traceparent,
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

/** Appends the field to an encoded event. Protobuf allows fields in any order. */
function withSnapshot(event: Uint8Array, snapshot: Uint8Array): Uint8Array {
  const { number } = EventSchema.field.snapshot;
  const field = new BinaryWriter().tag(number, WireType.LengthDelimited).uint32(snapshot.length);
  return Buffer.concat([event, field.finish(), snapshot]);
}
