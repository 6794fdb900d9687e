import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import type pg from 'pg';
import type { Actor } from '../../../proto/gen/rms/common/v1/actor_pb.ts';
import {
  type Label,
  type Return,
  ReturnState,
} from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { allInOrder } from '../../platform/postgres/all-in-order.ts';
import { committing, type Queryable, together } from '../../platform/postgres/postgres.ts';
import { named, raw, type Sql, sql } from '../../platform/postgres/sql.ts';
import { claimKey, type KeyUse } from '../../platform/values/idempotency.ts';
import { returnNotFound } from '../errors.ts';
import type { AutomaticProcess } from '../policy/automatic.ts';
import type { StateChange } from '../return.ts';
import { appendReturnEvents, type DetailEvent } from './append-events.ts';
import { detailsBytes, requireDetailsFit } from './details-size.ts';
import { encodeDetails, encodeReturn } from './encoded.ts';
import { fittingParts } from './fitting.ts';
import { loadForChange, loadLabel, loadReturn, loadReturns } from './load.ts';
import { NEXT_REVISION } from './next-revision.ts';
import { saveState } from './save-state.ts';
import {
  addTimeline,
  insertTimeline,
  type NewTimelineEntry,
  timelineStatement,
} from './timeline-store.ts';
import { changing, type StoreDeps } from './transaction.ts';

/** What the store writes for the caller of a change, in addition to the caller's own statements. */
interface Change<T> {
  readonly value: T;
  /** Transitions of the changed returns. They are written after the statements of the caller. */
  readonly stateChanges?: readonly StateChange[];
  readonly events?: readonly DetailEvent[];
  readonly timeline?: readonly NewTimelineEntry[];
}

/** The value of the caller, and the returns after the change. */
interface Changed<T> {
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
type OfOne = Changer & { readonly returnId: bigint };
/** The returns to change. */
type OfSeveral = Changer & { readonly returnIds: readonly bigint[] };
/** Changes rows of the return, which is locked. */
type WorkOnOne<T> = (tx: pg.PoolClient, current: Return) => Promise<Change<T>>;
/** Changes rows of the returns, which are locked and in the order of their ids. */
type WorkOnSeveral<T> = (tx: pg.PoolClient, current: readonly Return[]) => Promise<Change<T>>;

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

/** How a change ends. */
interface End {
  /** Sends the last statements: `committing` also commits, and `together` leaves the transaction open. */
  readonly send: typeof together;
  readonly automatic: AutomaticProcess | undefined;
}

/**
 * Creates a store that changes returns with one pool.
 *
 * @param deps.automatic queues a changed return for processing, if its policy says so. Without it, nothing is queued.
 */
export function createReturnStore(
  deps: StoreDeps & { readonly automatic?: AutomaticProcess },
): ReturnStore {
  const { automatic } = deps;
  const last = { send: committing, automatic };
  const inside = { send: together, automatic };
  return {
    change: (by, work) => changing(deps, by.shopId, (tx) => changeOne(tx, by, work, last)),
    changeOnce: (by, use, work) =>
      changing(deps, by.shopId, async (tx) => {
        if (await claimKey(tx, use, by.returnId)) {
          return (await changeOne(tx, by, work, last)).return;
        }
        const [current] = await loadForChange(tx, by.shopId, [by.returnId]);
        if (!current) throw returnNotFound();
        return current;
      }),
    changeMany: (by, work) => changing(deps, by.shopId, (tx) => changeSeveral(tx, by, work, last)),
    inTransaction: (shopId, work) => changing(deps, shopId, work),
    changeIn: (tx, by, work) => changeOne(tx, by, work, inside),
    changeInParts: (tx, by, work) => changeInParts(tx, by, work, inside),
    load: loadReturn,
    loadLabel,
  };
}

async function changeOne<T>(
  tx: pg.PoolClient,
  by: OfOne,
  work: WorkOnOne<T>,
  end: End,
): Promise<{ readonly value: T; readonly return: Return }> {
  const changed = await changeSeveral(
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

async function changeSeveral<T>(
  tx: pg.PoolClient,
  by: OfSeveral,
  work: WorkOnSeveral<T>,
  end: End,
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

async function changeInParts(
  tx: pg.PoolClient,
  by: OfSeveral,
  work: WorkOnSeveral<void>,
  end: End,
): Promise<readonly bigint[]> {
  const ids = await lockReturns(tx, by.shopId, inOrderOfIds(by.returnIds));
  for await (const part of fittingParts(tx, by.shopId, ids)) {
    const before = await loadForChange(tx, by.shopId, part);
    await changeLocked(tx, { ...by, returnIds: part, before, end }, work);
  }
  return ids;
}

async function changeLocked<T>(
  tx: pg.PoolClient,
  by: OfSeveral & { readonly before: readonly Return[]; readonly end: End },
  work: WorkOnSeveral<T>,
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
  const { timeline = [], stateChanges = [] } = change;
  // A return whose state was saved already has its next revision.
  const saved = new Set(stateChanges.map(({ returnId }) => returnId));
  const unsavedIds = changedIds.filter((id) => !saved.has(id));
  // A policy may queue open returns, whose entry follows those of the change. Otherwise the entries go with the events.
  const isLast =
    unsavedIds.length === 0 && written.every(({ state }) => state !== ReturnState.OPEN);
  const recorded = isLast ? written : await recordChange(tx, by, { written, unsavedIds, timeline });
  const after = await processed(tx, recorded, by.end.automatic);
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
  // Made here, because only a failed statement prevents the commit.
  const entries = isLast && timeline.length > 0 ? timelineStatement(by, timeline) : undefined;
  await by.end.send(tx, () =>
    allInOrder([
      entries ? tx.query(entries) : Promise.resolve(),
      appendReturnEvents(tx, by, events),
    ]),
  );
  return { value: change.value, returns: after };
}

/** Queues those returns for processing that their policies process now. */
async function processed(
  tx: Queryable,
  returns: readonly Return[],
  automatic: AutomaticProcess | undefined,
): Promise<readonly Return[]> {
  if (!automatic) return returns;
  const after: Return[] = [];
  for (const one of returns) {
    after.push((await automatic(tx, one)) ? { ...one, processing: true } : one);
  }
  return after;
}

/** Writes the transitions of a change, and then reads the returns again. */
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

// SQL condition for one id or several. PostgreSQL plans a named statement with a list in each call, because it assumes
// that the list is long. Most calls have only one id, for which it keeps the plan.
function isOneOf(ids: readonly bigint[]): Sql {
  return ids.length === 1 ? sql`= ${ids[0]}` : sql`= any(${ids}::bigint[])`;
}

/**
 * Locks returns in the order of their ids.
 *
 * @throws DomainError RETURN_NOT_FOUND when the shop does not have all of them.
 */
async function lockReturns(
  tx: Queryable,
  shopId: bigint,
  returnIds: readonly bigint[],
): Promise<bigint[]> {
  const { rows } = await tx.query<{ id: bigint }>(
    named(
      returnIds.length === 1 ? 'lock-return' : 'lock-returns',
      sql`select id from returns where shop_id = ${shopId} and id ${isOneOf(returnIds)} order by id for update`,
    ),
  );
  if (rows.length !== returnIds.length) throw returnNotFound();
  return rows.map((row) => row.id);
}

/**
 * Writes the timeline entries of a change. Gives each return of `unsavedIds` its next revision: these changed, but
 * `saveState` did not save them.
 *
 * @returns all returns of `written`, with their revision and time.
 */
async function recordChange(
  tx: Queryable,
  by: { readonly shopId: bigint; readonly actor: Actor },
  o: {
    readonly written: readonly Return[];
    readonly unsavedIds: readonly bigint[];
    readonly timeline: readonly NewTimelineEntry[];
  },
): Promise<readonly Return[]> {
  if (o.unsavedIds.length === 0) {
    await addTimeline(tx, by, o.timeline);
    return o.written;
  }
  const { rows } = await tx.query<{ id: bigint; revision: bigint; updated_at: Date }>(
    named(
      o.unsavedIds.length === 1 ? 'record-change-of-one' : 'record-change',
      sql`
with noted as (${insertTimeline(by, o.timeline)}
)
update returns
   set ${raw(NEXT_REVISION)}
 where shop_id = ${by.shopId} and id ${isOneOf(o.unsavedIds)}
returning id, revision, updated_at`,
    ),
  );
  const bumped = new Map(rows.map((row) => [row.id, row]));
  return o.written.map((current) => {
    const row = bumped.get(current.id);
    if (!row) return current;
    return { ...current, revision: row.revision, updatedAt: timestampFromDate(row.updated_at) };
  });
}
