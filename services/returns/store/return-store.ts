import type pg from 'pg';
import type { Actor } from '../../../proto/gen/rms/common/v1/actor_pb.ts';
import type { Label, Return } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import type { KeyUse } from '../../platform/idempotency.ts';
import type { Queryable } from '../../platform/postgres.ts';
import type { StateChange } from '../return.ts';
import type { DetailEvent } from './append-events.ts';
import type { NewTimelineEntry } from './timeline-store.ts';

/** What the store writes for the caller of a change, in addition to the caller's own statements. */
export interface Change<T> {
  readonly value: T;
  /** Transitions of the changed returns. They are written after the statements of the caller. */
  readonly stateChanges?: readonly StateChange[];
  readonly events?: readonly DetailEvent[];
  readonly timeline?: readonly NewTimelineEntry[];
}

/** The value of the caller, and the returns after the change. */
export interface Changed<T> {
  readonly value: T;
  /** The returns in the order of their ids. */
  readonly returns: readonly Return[];
}

/** The shop that owns the returns, and the actor of the change. */
export interface Changer {
  readonly shopId: bigint;
  readonly actor: Actor;
  /**
   * Whether the change stores data of a request. Then it fails when the details become too large. Other changes never
   * fail for this reason.
   */
  readonly addsInput?: boolean;
}

/** The return to change. */
export type OfOne = Changer & { readonly returnId: bigint };
/** The returns to change. */
export type OfSeveral = Changer & { readonly returnIds: readonly bigint[] };
/** Changes rows of the return, which is locked. */
export type WorkOnOne<T> = (tx: pg.PoolClient, current: Return) => Promise<Change<T>>;
/** Changes rows of the returns, which are locked and in the order of their ids. */
export type WorkOnSeveral<T> = (
  tx: pg.PoolClient,
  current: readonly Return[],
) => Promise<Change<T>>;

/**
 * Stores returns. `start.ts` creates one store for each pool, and the use cases that change returns get it as an
 * argument. Each change locks its returns. In one transaction it writes what changed, its events, its timeline entries
 * and its idempotency key. A change of large returns waits for a permit, and may run its `work` twice.
 */
export interface ReturnStore {
  /**
   * Changes one return in a transaction of its own; see {@link ReturnStore.changeMany}.
   *
   * @throws DomainError RETURN_NOT_FOUND when the shop has no return with this id; ConnectError OVERLOADED when no
   *   permit came in time.
   */
  change<T>(by: OfOne, work: WorkOnOne<T>): Promise<{ readonly value: T; readonly return: Return }>;

  /**
   * Changes a return once for each idempotency key. A repeated call only returns the current return. Without a key,
   * each call changes the return.
   *
   * @throws DomainError RETURN_NOT_FOUND; IDEMPOTENCY_CONFLICT when the key was used with other content; ConnectError
   *   OVERLOADED.
   */
  changeOnce(by: OfOne, use: KeyUse | undefined, work: WorkOnOne<void>): Promise<Return>;

  /**
   * Changes several returns in one transaction.
   *
   * Locks the returns in the order of their ids, and runs `work` with them. Each return whose details are different
   * after it gets the next revision and one event: return.closed when it was closed, otherwise return.updated. This
   * event and the events of `work` have the same snapshot. The flag `processing` is not part of the details.
   *
   * @throws DomainError RETURN_NOT_FOUND when the shop does not have all of them; ConnectError OVERLOADED.
   */
  changeMany<T>(by: OfSeveral, work: WorkOnSeveral<T>): Promise<Changed<T>>;

  /**
   * Runs `work` in a transaction that changes returns with {@link ReturnStore.changeIn}. When the returns are large, it
   * rolls back, waits for a permit and runs `work` again.
   *
   * @throws ConnectError OVERLOADED when no permit came in time.
   */
  inTransaction<T>(shopId: bigint, work: (tx: pg.PoolClient) => Promise<T>): Promise<T>;

  /** Does the same as {@link ReturnStore.change}, in a transaction of {@link ReturnStore.inTransaction}. */
  changeIn<T>(
    tx: pg.PoolClient,
    by: OfOne,
    work: WorkOnOne<T>,
  ): Promise<{ readonly value: T; readonly return: Return }>;

  /**
   * Does the same as {@link ReturnStore.changeMany}, in a transaction of {@link ReturnStore.inTransaction}. It is for
   * returns that may together be too many, or too large, for the memory. It locks all of them. Then it reads them part
   * by part. For each part it runs `work` and appends the events.
   *
   * @returns the ids of all returns, in order.
   * @throws DomainError RETURN_NOT_FOUND when the shop does not have all of them.
   */
  changeInParts(
    tx: pg.PoolClient,
    by: OfSeveral,
    work: WorkOnSeveral<void>,
  ): Promise<readonly bigint[]>;

  /** Reads one whole return without a lock. Undefined when the shop has none with this id. */
  load(db: Queryable, shopId: bigint, id: bigint): Promise<Return | undefined>;

  /** Reads one label. Undefined when the shop has none with this id. */
  loadLabel(db: Queryable, shopId: bigint, id: bigint): Promise<Label | undefined>;
}
