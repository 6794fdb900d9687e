import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import type pg from 'pg';
import type { Actor } from '../../../proto/gen/rms/common/v1/actor_pb.ts';
import type { Event } from '../../../proto/gen/rms/events/v1/events_pb.ts';
import { type Return, ReturnState } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { allInOrder } from '../../platform/all-in-order.ts';
import { committing, inTransaction, type Queryable, together } from '../../platform/postgres.ts';
import { returnNotFound } from '../refusals.ts';
import type { StateChange } from '../return.ts';
import { detailsBytes, requireRoom } from './details-size.ts';
import { encodeDetails, encodeReturn } from './encoded.ts';
import { LARGE_BYTES, largeOf } from './large.ts';
import { fittingParts, loadReturns, loadReturnsWithin } from './load.ts';
import { publish } from './publish.ts';
import { saveState } from './save-state.ts';
import { insertTimelineWhere, type NewTimelineEntry, timelineRows } from './timeline-store.ts';

/** An event with a detail of its own, beside the one that tells of the change itself. */
export interface DetailEvent {
  readonly trigger: string;
  readonly returnId: bigint;
  readonly detail?: Event['detail'];
}

/** What a change did, beside what it wrote itself. */
export interface Change<T> {
  readonly value: T;
  /** Transitions of the changed returns, still to be written. */
  readonly stateChanges?: readonly StateChange[];
  readonly events?: readonly DetailEvent[];
  readonly timeline?: readonly NewTimelineEntry[];
}

/** A change's answer and the returns as they are after it. */
export interface Changed<T> {
  readonly value: T;
  /** In the order of their ids. */
  readonly returns: readonly Return[];
}

/** Whose returns are changed, and on whose behalf. */
export interface Changer {
  readonly shopId: bigint;
  readonly actor: Actor;
  /** Takes in what a caller sent: refused when it leaves the details no room. Ends and states always have room. */
  readonly takesIn?: boolean;
}

/** Whether the transactions of {@link changing} may work on large returns. */
const mayBeLarge = new WeakMap<Queryable, boolean>();

/** Thrown to roll back: the returns are large, and the transaction has no permit for that. */
class NeedsPermit extends Error {
  override readonly name = 'NeedsPermit';
}

/**
 * A transaction that changes returns. Where they turn out to be large it is rolled back and done again
 * under a permit: nobody waits for a permit with a connection in hand.
 *
 * @param work may be called twice; reads what it changes by {@link loadForChange}.
 * @throws ConnectError OVERLOADED when no permit came in time.
 */
export async function changing<T>(
  pool: pg.Pool,
  shopId: bigint,
  work: (tx: pg.PoolClient) => Promise<T>,
): Promise<T> {
  const attempt = (isPermitted: boolean): Promise<T> =>
    inTransaction(pool, async (tx) => {
      mayBeLarge.set(tx, isPermitted);
      try {
        return await work(tx);
      } finally {
        mayBeLarge.delete(tx);
      }
    });
  const large = largeOf(pool);
  try {
    return await attempt(large.isPermitted());
  } catch (error) {
    if (!(error instanceof NeedsPermit)) throw error;
  }
  return large.within(shopId, () => attempt(true));
}

/** Reads returns inside of {@link changing}, in the order of `ids`. */
export async function loadForChange(
  tx: Queryable,
  shopId: bigint,
  ids: readonly bigint[],
): Promise<readonly Return[]> {
  if (mayBeLarge.get(tx) !== false) return loadReturns(tx, shopId, ids);
  const found = await loadReturnsWithin(tx, shopId, { ids, maxBytes: LARGE_BYTES });
  if (found === 'large') throw new NeedsPermit();
  return found;
}

/**
 * For what is read by other ways inside of {@link changing}.
 *
 * @param bytesOf asked only where there is no permit.
 */
export async function requirePermit(tx: Queryable, bytesOf: () => Promise<number>): Promise<void> {
  if (mayBeLarge.get(tx) === false && (await bytesOf()) > LARGE_BYTES) throw new NeedsPermit();
}

/**
 * The only way to change one return; see {@link changeReturns}.
 *
 * @throws DomainError RETURN_NOT_FOUND when the shop has none with that id.
 */
export async function changeReturn<T>(
  pool: pg.Pool,
  by: Changer & { readonly returnId: bigint },
  work: (tx: pg.PoolClient, current: Return) => Promise<Change<T>>,
): Promise<{ readonly value: T; readonly return: Return }> {
  return changing(pool, by.shopId, (tx) => changeReturnIn(tx, by, work, committing));
}

/**
 * {@link changeReturn} inside a transaction of the caller's.
 *
 * @param end `committing` when nothing follows in the transaction.
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
 * Locks their rows in the order of their ids and runs `work` with the returns as they are. Every
 * return whose details differ afterwards gets the next revision and one event: return.closed when
 * it became closed, else return.updated. These and the events that `work` hands back carry the same
 * snapshot. Whether processing is queued is no part of the details.
 *
 * @throws DomainError RETURN_NOT_FOUND when the shop lacks any of them.
 */
export async function changeReturns<T>(
  pool: pg.Pool,
  by: Changer & { readonly returnIds: readonly bigint[] },
  work: (tx: pg.PoolClient, current: readonly Return[]) => Promise<Change<T>>,
): Promise<Changed<T>> {
  return changing(pool, by.shopId, (tx) => changeReturnsIn(tx, by, work, committing));
}

/** {@link changeReturns} inside a transaction of the caller's; `end` as that of {@link changeReturnIn}. */
export async function changeReturnsIn<T>(
  tx: pg.PoolClient,
  by: Changer & { readonly returnIds: readonly bigint[] },
  work: (tx: pg.PoolClient, current: readonly Return[]) => Promise<Change<T>>,
  end: typeof together = together,
): Promise<Changed<T>> {
  const wanted = inOrderOfIds(by.returnIds);
  const [ids, before] = await together(tx, () =>
    allInOrder([lockReturns(tx, by.shopId, wanted), loadForChange(tx, by.shopId, wanted)]),
  );
  return changeLocked(tx, { ...by, returnIds: ids, before, end }, work);
}

function inOrderOfIds(ids: readonly bigint[]): bigint[] {
  return [...new Set(ids)].sort((a, b) => (a < b ? -1 : 1));
}

/**
 * {@link changeReturnsIn} for returns that may be too many, or too large, to be held at once: all are
 * locked first, then read, changed and told of part by part, with `work` for each part.
 *
 * @returns the ids of all, in order.
 * @throws DomainError RETURN_NOT_FOUND when the shop lacks any of them.
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
  if (by.takesIn) {
    for (const [i, after] of written.entries()) {
      const former = before[i];
      requireRoom(after, {
        encodedBytes: details[i]?.length ?? 0,
        bytesBefore: () => former && detailsBytes(former),
      });
    }
  }
  const { timeline = [] } = change;
  const after = await recordChange(tx, by, { written, changedIds, timeline });
  const events = after.flatMap((current, i) => {
    const told = eventsOf(current, {
      before: before[i],
      changed: changedIds.includes(current.id),
      change,
    });
    if (told.length === 0) return [];
    const snapshot = encodeReturn(current, details[i]);
    return told.map((event) => ({ ...event, snapshot }));
  });
  await by.end(tx, () => publish(tx, by, events));
  return { value: change.value, returns: after };
}

/** The returns as they are once the transitions that `work` decided are written. */
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

async function lockReturns(
  tx: Queryable,
  shopId: bigint,
  returnIds: readonly bigint[],
): Promise<bigint[]> {
  const { rows } = await tx.query<{ id: bigint }>({
    name: 'lock-returns',
    text: 'select id from returns where shop_id = $1 and id = any($2::bigint[]) order by id for update',
    values: [shopId, returnIds],
  });
  if (rows.length !== returnIds.length) throw returnNotFound();
  return rows.map((row) => row.id);
}

function isSame(one: Uint8Array | undefined, other: Uint8Array | undefined): boolean {
  return one !== undefined && other !== undefined && Buffer.compare(one, other) === 0;
}

const RECORD_CHANGE = `
with noted as (${insertTimelineWhere('true')}
)
update returns
   set revision = revision + 1, updated_at = greatest(updated_at, clock_timestamp())
 where shop_id = $1 and id = any($3::bigint[])
returning id, revision, updated_at`;

/** Writes what follows from a change. Gives the changed ones their next revision; answers all as they are then. */
async function recordChange(
  tx: Queryable,
  by: Changer,
  o: {
    readonly written: readonly Return[];
    readonly changedIds: readonly bigint[];
    readonly timeline: readonly NewTimelineEntry[];
  },
): Promise<readonly Return[]> {
  if (o.changedIds.length === 0 && o.timeline.length === 0) return o.written;
  const { rows } = await tx.query<{ id: bigint; revision: bigint; updated_at: Date }>({
    name: 'record-change',
    text: RECORD_CHANGE,
    values: [by.shopId, timelineRows(by.actor, o.timeline), o.changedIds],
  });
  const bumped = new Map(rows.map((row) => [row.id, row]));
  return o.written.map((current) => {
    const row = bumped.get(current.id);
    if (!row) return current;
    return { ...current, revision: row.revision, updatedAt: timestampFromDate(row.updated_at) };
  });
}

function eventsOf(
  current: Return,
  o: { before: Return | undefined; changed: boolean; change: Change<unknown> },
): DetailEvent[] {
  const closed = current.state === ReturnState.CLOSED && o.before?.state !== ReturnState.CLOSED;
  const trigger = closed ? 'return.closed' : 'return.updated';
  const own = o.changed ? [{ trigger, returnId: current.id }] : [];
  const details = (o.change.events ?? []).filter((event) => event.returnId === current.id);
  return [...own, ...details];
}
