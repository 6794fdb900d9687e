import { randomUUID } from 'node:crypto';
import { create } from '@bufbuild/protobuf';
import type pg from 'pg';
import { type Actor, Actor_Kind, ActorSchema } from '../../../proto/gen/rms/common/v1/actor_pb.ts';
import type { BusRecord, EventBus } from '../../../services/platform/bus/event-bus.ts';
import { murmur2 } from '../../../services/platform/kafka/murmur2.ts';
import { appendEvents, type NewEvent, SHARDS } from '../../../services/platform/outbox/append.ts';
import { parseEvent } from '../../../services/platform/outbox/parse.ts';
import { Publisher } from '../../../services/platform/outbox/relay.ts';
import type { ShardLimits } from '../../../services/platform/outbox/shard.ts';
import { inTransaction } from '../../../services/platform/postgres/postgres.ts';
import { silentLogger } from '../services/telemetry.ts';

const actor: Actor = create(ActorSchema, { kind: Actor_Kind.SYSTEM, id: 'test' });

export const testEvent = (key: string, revision = 1n): NewEvent => ({
  trigger: 'return.updated',
  shopId: 1n,
  returnId: 2n,
  revision,
  key,
  actor,
});

export const appendTo = (pool: pg.Pool, ...events: NewEvent[]): Promise<string[]> =>
  inTransaction(pool, (tx) => appendEvents(tx, events));

/** SQL that marks all events as published. */
export const ALL_PUBLISHED = `
  update outbox_progress
     set version = version + 1, waiting = '{}', open = '{}', open_after = '{}',
         position = greatest(position, (select max(position) from events))`;

/** A bus that stores its records, and can reject them or respond late. */
export function rememberingBus() {
  const published: BusRecord[] = [];
  const control = { before: async (_: readonly BusRecord[]) => {}, after: async () => {} };
  const bus: EventBus = {
    async publish(_, records) {
      await control.before(records);
      published.push(...records);
      await control.after();
    },
    subscribe: () => Promise.reject(new Error('no subscriber')),
    hasCaughtUp: async () => true,
    health: async () => {},
    close: async () => {},
  };
  const revisions = (key: string) =>
    published.filter((r) => r.key === key).map((r) => parseEvent(r.value).revision);
  const ids = () => published.map((r) => parseEvent(r.value).eventId);
  const keys = () => published.map((r) => r.key);
  return { bus, control, published, revisions, ids, keys };
}

const ALL_SHARDS = Array.from({ length: SHARDS }, (_, shard) => shard);

/** A publisher that owns all shards. It runs a step only when the test calls it. */
export function publisherOn(
  pool: Pick<pg.Pool, 'query'>,
  bus: Pick<EventBus, 'publish'>,
  limits?: ShardLimits,
): Publisher {
  const publisher = new Publisher({
    pool: pool as pg.Pool,
    bus: bus as EventBus,
    topic: 't',
    logger: silentLogger(),
    onChange: () => {},
    onPublished: () => {},
    ...(limits && { limits }),
  });
  publisher.assign(ALL_SHARDS);
  return publisher;
}

/** Runs steps until no work is left. */
export async function drain(publisher: Publisher): Promise<void> {
  publisher.notify(ALL_SHARDS);
  do {
    await publisher.step(true);
    await publisher.finished();
  } while (!publisher.isEmpty());
}

/** The shard of {@link keysOfShard}. */
export const SHARD = 0;

/** Different keys of one shard. */
export function keysOfShard(count: number): string[] {
  const keys: string[] = [];
  while (keys.length < count) {
    const key = randomUUID();
    if (murmur2(key) % SHARDS === SHARD) keys.push(key);
  }
  return keys;
}
