import type pg from 'pg';
import type { Actor } from '../../../proto/gen/rms/common/v1/actor_pb.ts';
import { type Return, ReturnState } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { allInOrder } from '../../platform/all-in-order.ts';
import { claimKey, type KeyUse } from '../../platform/idempotency.ts';
import { committing, together } from '../../platform/postgres.ts';
import { returnNotFound } from '../errors.ts';
import type { StateChange } from '../return.ts';
import { appendReturnEvents, type DetailEvent } from './append-events.ts';
import { lockReturns, recordChange, saveState } from './change-statements.ts';
import { detailsBytes, requireDetailsFit } from './details-size.ts';
import { encodeDetails, encodeReturn } from './encoded.ts';
import { fittingParts } from './fitting.ts';
import { loadForChange, loadReturns } from './load.ts';
import type { NewTimelineEntry } from './timeline-store.ts';
import { changing } from './transaction.ts';

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

/**
 * Changes one return in a transaction of its own; see {@link changeReturns}.
 *
 * @throws DomainError RETURN_NOT_FOUND when the shop has no return with that id.
 */
export async function changeReturn<T>(
  pool: pg.Pool,
  by: Changer & { readonly returnId: bigint },
  work: (tx: pg.PoolClient, current: Return) => Promise<Change<T>>,
): Promise<{ readonly value: T; readonly return: Return }> {
  return changing(pool, by.shopId, (tx) => changeReturnIn(tx, by, work, committing));
}

/**
 * Changes a return once per idempotency key. A repeated call returns the current return. Without a key, each call
 * changes the return.
 *
 * @throws DomainError RETURN_NOT_FOUND; IDEMPOTENCY_CONFLICT when the key was used with other content.
 */
export async function changeReturnOnce(
  pool: pg.Pool,
  by: Changer & { readonly returnId: bigint },
  use: KeyUse | undefined,
  work: (tx: pg.PoolClient, current: Return) => Promise<Change<void>>,
): Promise<Return> {
  return changing(pool, by.shopId, async (tx) => {
    if (await claimKey(tx, use, by.returnId)) {
      return (await changeReturnIn(tx, by, work, committing)).return;
    }
    const [current] = await loadForChange(tx, by.shopId, [by.returnId]);
    if (!current) throw returnNotFound();
    return current;
  });
}

/**
 * {@link changeReturn} inside the caller's transaction.
 *
 * @param end `committing` when these are the last statements of the transaction.
 */
export async function changeReturnIn<T>(
  tx: pg.PoolClient,
  by: Changer & { readonly returnId: bigint },
  work: (tx: pg.PoolClient, current: Return) => Promise<Change<T>>,
  end: typeof together = together,
): Promise<{ readonly value: T; readonly return: Return }> {
  const changed = await changeReturnsIn(
    tx,
    { ...by, returnIds: [by.returnId] },
    (inside, [current]) => {
      if (!current) throw returnNotFound();
      return work(inside, current);
    },
    end,
  );
  const [after] = changed.returns;
  if (!after) throw returnNotFound();
  return { value: changed.value, return: after };
}

/**
 * Changes several returns in one transaction.
 *
 * Locks the returns in the order of their ids, and runs `work` with them. Each return whose details are different
 * afterwards gets the next revision and one event: return.closed when it became closed, else return.updated. This event
 * and the events of `work` have the same snapshot. The flag `processing` does not count as a detail.
 *
 * @throws DomainError RETURN_NOT_FOUND when the shop does not have all of them.
 */
export async function changeReturns<T>(
  pool: pg.Pool,
  by: Changer & { readonly returnIds: readonly bigint[] },
  work: (tx: pg.PoolClient, current: readonly Return[]) => Promise<Change<T>>,
): Promise<Changed<T>> {
  return changing(pool, by.shopId, (tx) => changeReturnsIn(tx, by, work, committing));
}

/** {@link changeReturns} inside the caller's transaction; `end` is that of {@link changeReturnIn}. */
async function changeReturnsIn<T>(
  tx: pg.PoolClient,
  by: Changer & { readonly returnIds: readonly bigint[] },
  work: (tx: pg.PoolClient, current: readonly Return[]) => Promise<Change<T>>,
  end: typeof together = together,
): Promise<Changed<T>> {
  const sortedIds = inOrderOfIds(by.returnIds);
  const [ids, before] = await together(tx, () =>
    allInOrder([lockReturns(tx, by.shopId, sortedIds), loadForChange(tx, by.shopId, sortedIds)]),
  );
  return changeLocked(tx, { ...by, returnIds: ids, before, end }, work);
}

function inOrderOfIds(ids: readonly bigint[]): bigint[] {
  return [...new Set(ids)].sort((a, b) => (a < b ? -1 : 1));
}

/**
 * {@link changeReturnsIn} for returns that may be too many, or too large, for the memory together. Locks all of them.
 * Then it reads them part by part, and for each part runs `work` and appends the events.
 *
 * @returns the ids of all returns, in order.
 * @throws DomainError RETURN_NOT_FOUND when the shop does not have all of them.
 */
export async function changeReturnsInParts(
  tx: pg.PoolClient,
  by: Changer & { readonly returnIds: readonly bigint[] },
  work: (tx: pg.PoolClient, current: readonly Return[]) => Promise<Change<void>>,
): Promise<readonly bigint[]> {
  const ids = await lockReturns(tx, by.shopId, inOrderOfIds(by.returnIds));
  for await (const part of fittingParts(tx, by.shopId, ids)) {
    const before = await loadForChange(tx, by.shopId, part);
    await changeLocked(tx, { ...by, returnIds: part, before, end: together }, work);
  }
  return ids;
}

async function changeLocked<T>(
  tx: pg.PoolClient,
  by: Changer & {
    readonly returnIds: readonly bigint[];
    readonly before: readonly Return[];
    readonly end: typeof together;
  },
  work: (tx: pg.PoolClient, current: readonly Return[]) => Promise<Change<T>>,
): Promise<Changed<T>> {
  const { returnIds: ids, before } = by;
  const change = await work(tx, before);
  const written = await saveAndReload(tx, by.shopId, { ids, ...change });
  const details = written.map(encodeDetails);
  const changedIds = written
    .filter((_, i) => !isSame(before[i] && encodeDetails(before[i]), details[i]))
    .map((after) => after.id);
  if (by.addsInput) {
    for (const [i, after] of written.entries()) {
      const previous = before[i];
      requireDetailsFit(after, {
        encodedBytes: details[i]?.length ?? 0,
        bytesBefore: () => previous && detailsBytes(previous),
      });
    }
  }
  const { timeline = [] } = change;
  const after = await recordChange(tx, by, { written, changedIds, timeline });
  const events = after.flatMap((current, i) => {
    const own = eventsOf(current, {
      before: before[i],
      changed: changedIds.includes(current.id),
      change,
    });
    if (own.length === 0) return [];
    const snapshot = encodeReturn(current, details[i]);
    return own.map((event) => ({ ...event, snapshot }));
  });
  await by.end(tx, () => appendReturnEvents(tx, by, events));
  return { value: change.value, returns: after };
}

/** Writes the transitions of a change, then reads the returns again. */
async function saveAndReload(
  tx: pg.PoolClient,
  shopId: bigint,
  o: { readonly ids: readonly bigint[]; readonly stateChanges?: readonly StateChange[] },
): Promise<readonly Return[]> {
  const [, written] = await together(tx, () => {
    const saving = (o.stateChanges ?? []).map((change) => saveState(tx, shopId, change));
    return allInOrder([allInOrder(saving), loadReturns(tx, shopId, o.ids)]);
  });
  return written;
}

function isSame(one: Uint8Array | undefined, other: Uint8Array | undefined): boolean {
  return one !== undefined && other !== undefined && Buffer.compare(one, other) === 0;
}

function eventsOf(
  current: Return,
  o: { before: Return | undefined; changed: boolean; change: Change<unknown> },
): DetailEvent[] {
  const closed = current.state === ReturnState.CLOSED && o.before?.state !== ReturnState.CLOSED;
  const trigger = closed ? 'return.closed' : 'return.updated';
  const own: DetailEvent[] = o.changed ? [{ trigger, returnId: current.id }] : [];
  const details = (o.change.events ?? []).filter((event) => event.returnId === current.id);
  return [...own, ...details];
}
