import { createHash } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { create } from '@bufbuild/protobuf';
import type pg from 'pg';
import type { Actor } from '../../proto/gen/rms/common/v1/actor_pb.ts';
import { DestinationChangedSchema } from '../../proto/gen/rms/events/v1/events_pb.ts';
import { claimKey, type KeyUse } from '../platform/idempotency.ts';
import { appendEvents } from '../platform/outbox/append.ts';
import { inTransaction, type Queryable, violatedConstraint } from '../platform/postgres.ts';
import {
  type Destination,
  type DestinationState,
  destinationNotFound,
  keyConflict,
  type NewDestination,
  quotaExceeded,
} from './destination.ts';
import {
  findByKey,
  insertDestination,
  lockDestination,
  lockQuota,
  updateDestination,
} from './store.ts';

interface Caller {
  readonly shopId: bigint;
  readonly actor: Actor;
}

/**
 * Adds a destination once for each idempotency key. A repeated call returns the destination in its current state.
 *
 * @throws DomainError ALREADY_EXISTS for a key that was used with other content; RESOURCE_EXHAUSTED when the shop has
 *   1,000 destinations.
 */
export async function createDestination(pool: pg.Pool, input: NewDestination) {
  const { shopId, actor, idempotencyKey: key, ...content } = input;
  const requestHash = createHash('sha256').update(JSON.stringify(content)).digest();
  return inTransaction(pool, async (tx) => {
    await lockQuota(tx, shopId);
    const existing = await findByKey(tx, shopId, key);
    if (existing && !existing.requestHash.equals(requestHash)) throw keyConflict();
    if (existing) return existing.destination;

    const state = { ...content, providerLocationId: undefined };
    const created = await insertDestination(tx, shopId, { state, key, requestHash }).catch(
      (error: unknown) => {
        throw violatedConstraint(error) === 'destinations_quota' ? quotaExceeded() : error;
      },
    );
    await announce(tx, { shopId, actor }, created.id);
    return created;
  });
}

/**
 * Changes one destination under its lock. A change without effect writes nothing and publishes no event. A repeated
 * call with the same idempotency key changes nothing.
 *
 * @returns the destination, and as `previous` its state before the change; absent when the call changed nothing.
 * @throws DomainError NOT_FOUND when the shop has no such destination; IDEMPOTENCY_CONFLICT.
 */
export async function changeDestination(
  pool: pg.Pool,
  caller: Caller,
  o: {
    readonly id: bigint;
    readonly use?: KeyUse | undefined;
    readonly change: (current: Destination) => DestinationState;
  },
): Promise<{ readonly destination: Destination; readonly previous?: Destination }> {
  return inTransaction(pool, async (tx) => {
    const isFirst = await claimKey(tx, o.use, o.id);
    const current = await lockDestination(tx, caller.shopId, o.id);
    if (!current) throw destinationNotFound(o.id);
    if (!isFirst) return { destination: current };
    const { id, updatedAt, ...before } = current;
    const state = o.change(current);
    if (isDeepStrictEqual(before, state)) return { destination: current };

    const changed = await updateDestination(tx, caller.shopId, { id, state });
    await announce(tx, caller, id);
    return { destination: changed, previous: current };
  });
}

async function announce(tx: Queryable, caller: Caller, destinationId: bigint): Promise<void> {
  const value = create(DestinationChangedSchema, { destinationId });
  await appendEvents(tx, [
    {
      trigger: 'destination.changed',
      shopId: caller.shopId,
      key: `${caller.shopId}:${destinationId}`,
      actor: caller.actor,
      detail: { case: 'destination', value },
    },
  ]);
}
