import { createHash } from 'node:crypto';
import { create, type DescMessage, type MessageShape, toBinary } from '@bufbuild/protobuf';
import type { Queryable } from '../../platform/postgres.ts';
import { idempotencyConflict } from '../refusals.ts';

/** One use of a caller's key. */
export interface KeyUse {
  readonly shopId: bigint;
  /** Keys of different operations have nothing to do with one another. */
  readonly operation: string;
  readonly key: string;
  /** Of the request, by {@link requestHash}. */
  readonly hash: Uint8Array;
  /** The field that holds the key; `idempotency_key` when absent. */
  readonly field?: string;
}

/**
 * A hash of what a request asks for. Who asks is no part of it: a repeat may come from another
 * replica or person.
 */
export function requestHash<D extends DescMessage>(
  schema: D,
  request: MessageShape<D>,
): Uint8Array {
  const asked = create(schema);
  Object.assign(asked, request, { actor: undefined });
  return createHash('sha256').update(toBinary(schema, asked)).digest();
}

/**
 * The result of an earlier use of the key; undefined when it was never used.
 *
 * @throws DomainError IDEMPOTENCY_CONFLICT when it was used with other content.
 */
export async function findUse(db: Queryable, use: KeyUse): Promise<bigint | undefined> {
  const { rows } = await db.query<{ result_id: bigint; request_hash: Buffer }>(
    `select result_id, request_hash from idempotency_keys
      where shop_id = $1 and operation = $2 and key = $3`,
    [use.shopId, use.operation, use.key],
  );
  const [found] = rows;
  if (!found) return undefined;
  if (!found.request_hash.equals(use.hash)) throw idempotencyConflict(use.field);
  return found.result_id;
}

/**
 * Runs `work` once per key: a later or parallel use of the same key waits for the first and is
 * answered with its result. Call it before any row is locked.
 *
 * @throws DomainError IDEMPOTENCY_CONFLICT when the key was used with other content.
 */
export async function oncePerKey(
  tx: Queryable,
  use: KeyUse,
  work: () => Promise<bigint>,
): Promise<{ readonly id: bigint; readonly repeated: boolean }> {
  await tx.query('select pg_advisory_xact_lock(hashtextextended($1, 0))', [
    `${use.shopId}:${use.operation}:${use.key}`,
  ]);
  const earlier = await findUse(tx, use);
  if (earlier !== undefined) return { id: earlier, repeated: true };
  const id = await work();
  await tx.query(
    `insert into idempotency_keys (shop_id, operation, key, request_hash, result_id)
     values ($1, $2, $3, $4, $5)`,
    [use.shopId, use.operation, use.key, use.hash, id],
  );
  return { id, repeated: false };
}
