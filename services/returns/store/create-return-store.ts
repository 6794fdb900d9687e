import type pg from 'pg';
import { type Return, ReturnState } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { allInOrder } from '../../platform/all-in-order.ts';
import { claimKey } from '../../platform/idempotency.ts';
import { committing, together } from '../../platform/postgres.ts';
import { returnNotFound } from '../errors.ts';
import type { StateChange } from '../return.ts';
import { appendReturnEvents, type DetailEvent } from './append-events.ts';
import { lockReturns, recordChange, saveState } from './change-statements.ts';
import { detailsBytes, requireDetailsFit } from './details-size.ts';
import { encodeDetails, encodeReturn } from './encoded.ts';
import { fittingParts } from './fitting.ts';
import { loadForChange, loadLabel, loadReturn, loadReturns } from './load.ts';
import type {
  Change,
  Changed,
  OfOne,
  OfSeveral,
  ReturnStore,
  WorkOnOne,
  WorkOnSeveral,
} from './return-store.ts';
import { changing, type StoreDeps } from './transaction.ts';

/** Creates a store that changes returns with one pool. */
export function createReturnStore(deps: StoreDeps): ReturnStore {
  return {
    change: (by, work) => changing(deps, by.shopId, (tx) => changeOne(tx, by, work, committing)),
    changeOnce: (by, use, work) =>
      changing(deps, by.shopId, async (tx) => {
        if (await claimKey(tx, use, by.returnId)) {
          return (await changeOne(tx, by, work, committing)).return;
        }
        const [current] = await loadForChange(tx, by.shopId, [by.returnId]);
        if (!current) throw returnNotFound();
        return current;
      }),
    changeMany: (by, work) =>
      changing(deps, by.shopId, (tx) => changeSeveral(tx, by, work, committing)),
    inTransaction: (shopId, work) => changing(deps, shopId, work),
    changeIn: (tx, by, work) => changeOne(tx, by, work, together),
    changeInParts,
    load: loadReturn,
    loadLabel,
  };
}

/**
 * Changes one return.
 *
 * @param sendLast sends the last statements: `committing` also commits, and `together` leaves the transaction open.
 */
async function changeOne<T>(
  tx: pg.PoolClient,
  by: OfOne,
  work: WorkOnOne<T>,
  sendLast: typeof together,
): Promise<{ readonly value: T; readonly return: Return }> {
  const changed = await changeSeveral(
    tx,
    { ...by, returnIds: [by.returnId] },
    (inside, [current]) => {
      if (!current) throw returnNotFound();
      return work(inside, current);
    },
    sendLast,
  );
  const [after] = changed.returns;
  if (!after) throw returnNotFound();
  return { value: changed.value, return: after };
}

async function changeSeveral<T>(
  tx: pg.PoolClient,
  by: OfSeveral,
  work: WorkOnSeveral<T>,
  sendLast: typeof together,
): Promise<Changed<T>> {
  const sortedIds = inOrderOfIds(by.returnIds);
  const [ids, before] = await together(tx, () =>
    allInOrder([lockReturns(tx, by.shopId, sortedIds), loadForChange(tx, by.shopId, sortedIds)]),
  );
  return changeLocked(tx, { ...by, returnIds: ids, before, sendLast }, work);
}

function inOrderOfIds(ids: readonly bigint[]): bigint[] {
  return [...new Set(ids)].sort((a, b) => (a < b ? -1 : 1));
}

async function changeInParts(
  tx: pg.PoolClient,
  by: OfSeveral,
  work: WorkOnSeveral<void>,
): Promise<readonly bigint[]> {
  const ids = await lockReturns(tx, by.shopId, inOrderOfIds(by.returnIds));
  for await (const part of fittingParts(tx, by.shopId, ids)) {
    const before = await loadForChange(tx, by.shopId, part);
    await changeLocked(tx, { ...by, returnIds: part, before, sendLast: together }, work);
  }
  return ids;
}

async function changeLocked<T>(
  tx: pg.PoolClient,
  by: OfSeveral & { readonly before: readonly Return[]; readonly sendLast: typeof together },
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
  const after = await recordChange(tx, by, { written, unsavedIds, timeline });
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
  await by.sendLast(tx, () => appendReturnEvents(tx, by, events));
  return { value: change.value, returns: after };
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
