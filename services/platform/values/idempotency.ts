import { createHash } from 'node:crypto';
import { create, type DescMessage, type MessageShape, toBinary } from '@bufbuild/protobuf';
import { Code } from '@connectrpc/connect';
import type pg from 'pg';
import { z } from 'zod';
import { ErrorReason } from '../../../proto/gen/rms/common/v1/error_pb.ts';
import { allInOrder } from '../postgres/all-in-order.ts';
import { type Queryable, together } from '../postgres/postgres.ts';
import { startLoop, type Worker } from '../process/worker.ts';
import type { Logger } from '../telemetry/log.ts';
import { DomainError } from './errors.ts';
import { optionalIdempotencyKey, parseInput } from './input.ts';

/** A call with an idempotency key. */
export interface KeyUse {
  readonly shopId: bigint;
  /** The operation. The same key for another operation is another key. */
  readonly operation: string;
  readonly key: string;
  /** Hash of the request, made by {@link requestHash}. */
  readonly hash: Uint8Array;
  /** Name of the field with the key, for the error; `idempotency_key` when absent. */
  readonly field?: string;
}

/** The error for a key that was already used with other content. */
export function idempotencyConflict(field = 'idempotency_key'): DomainError {
  return new DomainError(
    Code.AlreadyExists,
    ErrorReason.IDEMPOTENCY_CONFLICT,
    `${field} was used with other content`,
    { field },
  );
}

/**
 * Returns a hash of the request without its actor. A repeat may come from another replica or another user. The entries of
 * maps are sorted, because clients in Go send them in a random order.
 */
export function requestHash<D extends DescMessage>(
  schema: D,
  request: MessageShape<D>,
): Uint8Array {
  const content = create(schema);
  Object.assign(content, request, { actor: undefined });
  for (const { fieldKind, localName } of schema.fields) {
    if (fieldKind !== 'map') continue;
    const entries = Object.entries(Object(Reflect.get(content, localName)));
    entries.sort(([a], [b]) => (a < b ? -1 : 1));
    Reflect.set(content, localName, Object.fromEntries(entries));
  }
  return createHash('sha256').update(toBinary(schema, content)).digest();
}

/** A message with a key that may be empty. */
type KeyedMessage = { readonly shopId: bigint; readonly idempotencyKey: string };

const keyed = z.object({ idempotencyKey: optionalIdempotencyKey });

/**
 * Returns the key of a request with its hash; undefined when the request has no key.
 *
 * @throws DomainError INVALID_ARGUMENT for a key that is too long or cannot be stored.
 */
export function keyUseOf<D extends DescMessage>(
  operation: string,
  schema: D,
  request: MessageShape<D> & KeyedMessage,
): KeyUse | undefined {
  const { shopId } = request;
  const { idempotencyKey: key } = parseInput(keyed, request);
  return key === undefined
    ? undefined
    : { shopId, operation, key, hash: requestHash(schema, request) };
}

/**
 * Returns the result of an earlier use of the key; undefined when the key was never used.
 *
 * @throws DomainError IDEMPOTENCY_CONFLICT when the key was used with other content.
 */
export async function findUse(db: Queryable, use: KeyUse): Promise<bigint | undefined> {
  const found = await findKey(db, use);
  if (found && !found.isSame) throw idempotencyConflict(use.field);
  return found?.resultId;
}

/** Returns the result of an earlier use of the key, and whether it had the same content. */
export async function findKey(
  db: Queryable,
  use: KeyUse,
): Promise<{ readonly resultId: bigint; readonly isSame: boolean } | undefined> {
  const { rows } = await db.query<{ result_id: bigint; request_hash: Buffer }>({
    name: 'find-key',
    text: `select result_id, request_hash from idempotency_keys
            where shop_id = $1 and operation = $2 and key = $3`,
    values: [use.shopId, use.operation, use.key],
  });
  const [found] = rows;
  if (!found) return undefined;
  return { resultId: found.result_id, isSame: found.request_hash.equals(use.hash) };
}

/**
 * Runs `work` once for each key. A later or parallel call with the same key waits for the first call and gets its
 * result. Without a key, every call runs `work`. Must be called before the transaction locks any row.
 *
 * @throws DomainError IDEMPOTENCY_CONFLICT when the key was used with other content.
 */
export async function oncePerKey(
  tx: Queryable,
  use: KeyUse | undefined,
  work: () => Promise<bigint>,
): Promise<{ readonly id: bigint; readonly repeated: boolean }> {
  if (!use) return { id: await work(), repeated: false };
  const lock = () =>
    tx.query({
      name: 'lock-key',
      text: 'select pg_advisory_xact_lock(hashtextextended($1, 0))',
      values: [`${use.shopId}:${use.operation}:${use.key}`],
    });
  // The second statement sees what was committed before the lock.
  const [, earlier] = await together(tx, () => allInOrder([lock(), findUse(tx, use)]));
  if (earlier !== undefined) return { id: earlier, repeated: true };
  const id = await work();
  await tx.query({ name: 'claim-key', text: CLAIM, values: claimOf(use, id) });
  return { id, repeated: false };
}

const CLAIM = `
insert into idempotency_keys (shop_id, operation, key, request_hash, result_id)
values ($1, $2, $3, $4, $5)`;

function claimOf({ shopId, operation, key, hash }: KeyUse, resultId: bigint): unknown[] {
  return [shopId, operation, key, hash, resultId];
}

/**
 * Claims a key for a change of the object with the id `resultId`, in the transaction of the change: a rollback releases
 * the key. Of two concurrent calls, the second waits for the first.
 *
 * @returns true when this call must make the change, also when it has no key. False when an earlier call with the key
 *   made it.
 * @throws DomainError IDEMPOTENCY_CONFLICT when the key was used with other content.
 */
export async function claimKey(
  tx: Queryable,
  use: KeyUse | undefined,
  resultId: bigint,
): Promise<boolean> {
  if (!use) return true;
  const { rowCount } = await tx.query({
    name: 'claim-key-once',
    text: `${CLAIM} on conflict do nothing`,
    values: claimOf(use, resultId),
  });
  if (rowCount === 1) return true;
  await findUse(tx, use);
  return false;
}

/** Releases the key of a change that was undone. */
export async function releaseKey(tx: Queryable, use: KeyUse): Promise<void> {
  await tx.query(
    'delete from idempotency_keys where shop_id = $1 and operation = $2 and key = $3',
    [use.shopId, use.operation, use.key],
  );
}

/** How long keys are kept. No caller repeats a call after this time. Days. */
const KEY_DAYS = 90;
const EVERY_MS = 60 * 60 * 1_000;
/** Maximum number of rows that one statement deletes. A long delete would block other transactions. */
const ROWS = 5_000;

/** Starts the loop that deletes keys after 90 days. Several replicas may run it. */
export function startKeyPurge(o: { readonly pool: pg.Pool; readonly logger: Logger }): Worker {
  return startLoop({
    name: 'purge of idempotency keys',
    idleMs: EVERY_MS,
    logger: o.logger,
    step: async () => ((await purgeKeys(o.pool)) < ROWS ? 'idle' : 'again'),
  });
}

/**
 * Deletes up to 5,000 old keys.
 *
 * @param keep operations whose keys are never deleted.
 * @returns the number of deleted rows.
 */
export async function purgeKeys(db: Queryable, keep: readonly string[] = []): Promise<number> {
  const { rowCount } = await db.query(
    `delete from idempotency_keys
      where (shop_id, operation, key) in (
        select shop_id, operation, key from idempotency_keys
         where operation <> all ($1::text[]) and created_at < now() - $2 * interval '1 day' limit $3)`,
    [keep, KEY_DAYS, ROWS],
  );
  return rowCount ?? 0;
}
