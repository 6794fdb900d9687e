import type pg from 'pg';
import type { Actor } from '../../../proto/gen/rms/common/v1/actor_pb.ts';
import type { Label, Return } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import type { KeyUse } from '../../platform/idempotency.ts';
import type { Queryable } from '../../platform/postgres.ts';
import type { StateChange } from '../return.ts';
import type { DetailEvent } from './append-events.ts';
import type { NewTimelineEntry } from './timeline-store.ts';

/** What the caller of a change wants written besides its own statements. */
export interface Change<T> {
  readonly value: T;
  /** Transitions of the changed returns. They are written after the caller's statements. */
  readonly stateChanges?: readonly StateChange[];
  readonly events?: readonly DetailEvent[];
  readonly timeline?: readonly NewTimelineEntry[];
}

/** The caller's value, and the returns after the change. */
export interface Changed<T> {
  readonly value: T;
  /** In the order of their ids. */
  readonly returns: readonly Return[];
}

/** The shop of the returns, and the actor of the change. */
export interface Changer {
  readonly shopId: bigint;
  readonly actor: Actor;
  /**
   * The change stores data of a request, so it fails when the details become too large. Other changes never fail for
   * this reason.
   */
  readonly addsInput?: boolean;
}

/** The return to change. */
export type OfOne = Changer & { readonly returnId: bigint };
/** The returns to change. */
export type OfSeveral = Changer & { readonly returnIds: readonly bigint[] };
/** Changes rows of the locked return. */
export type WorkOnOne<T> = (tx: pg.PoolClient, current: Return) => Promise<Change<T>>;
/** Changes rows of the locked returns, which are in the order of their ids. */
export type WorkOnSeveral<T> = (
  tx: pg.PoolClient,
  current: readonly Return[],
) => Promise<Change<T>>;

/**
 * The stored returns. `start.ts` makes one for each pool, and the use cases that change returns get it as an argument.
 * Each change locks its returns, and writes what changed, its events, its timeline entries and its idempotency key in
 * one transaction. A change of large returns waits for a permit, and may run its `work` twice.
 */
export interface ReturnStore {
  /**
   * Changes one return in a transaction of its own; see {@link ReturnStore.changeMany}.
   *
   * @throws DomainError RETURN_NOT_FOUND when the shop has no return with that id; ConnectError OVERLOADED when no
   *   permit came in time.
   */
  change<T>(by: OfOne, work: WorkOnOne<T>): Promise<{ readonly value: T; readonly return: Return }>;

  /**
   * Changes a return once per idempotency key. A repeated call returns the current return. Without a key, each call
   * changes the return.
   *
   * @throws DomainError RETURN_NOT_FOUND; IDEMPOTENCY_CONFLICT when the key was used with other content; ConnectError
   *   OVERLOADED.
   */
  changeOnce(by: OfOne, use: KeyUse | undefined, work: WorkOnOne<void>): Promise<Return>;

  /**
   * Changes several returns in one transaction.
   *
   * Locks the returns in the order of their ids, and runs `work` with them. Each return whose details are different
   * afterwards gets the next revision and one event: return.closed when it became closed, else return.updated. This
   * event and the events of `work` have the same snapshot. The flag `processing` does not count as a detail.
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

  /** {@link ReturnStore.change} inside a transaction of {@link ReturnStore.inTransaction}. */
  changeIn<T>(
    tx: pg.PoolClient,
    by: OfOne,
    work: WorkOnOne<T>,
  ): Promise<{ readonly value: T; readonly return: Return }>;

  /**
   * {@link ReturnStore.changeMany} inside a transaction of {@link ReturnStore.inTransaction}, for returns that may be
   * too many, or too large, for the memory together. Locks all of them. Then it reads them part by part, and for each
   * part runs `work` and appends the events.
   *
   * @returns the ids of all returns, in order.
   * @throws DomainError RETURN_NOT_FOUND when the shop does not have all of them.
   */
  changeInParts(
    tx: pg.PoolClient,
    by: OfSeveral,
    work: WorkOnSeveral<void>,
  ): Promise<readonly bigint[]>;

  /** Reads one whole return without a lock; undefined when the shop has none with that id. */
  load(db: Queryable, shopId: bigint, id: bigint): Promise<Return | undefined>;

  /** Reads one label; undefined when the shop has none with that id. */
  loadLabel(db: Queryable, shopId: bigint, id: bigint): Promise<Label | undefined>;
}
