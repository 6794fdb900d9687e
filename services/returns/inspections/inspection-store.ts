import type { Actor } from '../../../proto/gen/rms/common/v1/actor_pb.ts';
import { ErrorReason } from '../../../proto/gen/rms/common/v1/error_pb.ts';
import type { Return } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { DETAILS_BYTES_MAX } from '../../contract/limits.ts';
import { allInOrder } from '../../platform/postgres/all-in-order.ts';
import { type PackedTexts, packTexts } from '../../platform/postgres/packed-texts.ts';
import { committing, type Queryable, together } from '../../platform/postgres/postgres.ts';
import { actorKindText } from '../../platform/values/actor.ts';
import { DomainError } from '../../platform/values/errors.ts';
import type { AutomaticProcess } from '../policy/automatic.ts';
import { reviewMissingGoods } from '../policy/missing-goods.ts';
import { appendReturnEvents, COPIED_TEXT_BYTES } from '../store/append-events.ts';
import { detailsBytes, requireDetailsFit } from '../store/details-size.ts';
import { encodeReturn } from '../store/encoded.ts';
import { fittingParts, fittingReturns } from '../store/fitting.ts';
import { lockReturnsOfLines } from '../store/line-owners.ts';
import {
  bytesOfImages,
  type HashedReturn,
  idsOfLongTexts,
  loadForChange,
  loadHashed,
  loadSmall,
} from '../store/load.ts';
import { changing, mayHoldLarge, requirePermit, type StoreDeps } from '../store/transaction.ts';

/** The fields that every kind of inspection has. */
export interface Inspected {
  readonly lineItemId: bigint;
  /** The actor who inspected; undefined when it was the caller. */
  readonly actor?: Actor | undefined;
}

/** The shop that owns the returns, and the actor of the change. */
interface Caller {
  readonly shopId: bigint;
  readonly actor: Actor;
}

/** One kind of inspection: how it is stored, and its timeline entry. */
export interface InspectionKind<T extends Inspected> {
  /** The statement of {@link storeStatement}. Its columns are those that `rowOf` fills. */
  readonly statement: { readonly name: string; readonly text: string };
  /**
   * Returns the id that the dispositions service gave the inspection. A later inspection of a line item has a larger
   * id.
   */
  readonly idOf: (inspection: T) => bigint;
  readonly rowOf: (inspection: T, texts: PackedTexts) => Readonly<Record<string, unknown>>;
  /** Returns the timeline entry. The statement adds the previous values to its facts. */
  readonly entryOf: (inspection: T) => {
    readonly text: string;
    readonly facts: Readonly<Record<string, string>>;
  };
  /** Whether the inspection says that the goods did not come. */
  readonly isMissing: (inspection: T) => boolean;
}

/** The inspections of one call, and whether the caller wants the returns in the response. */
export interface Batch<T extends Inspected> extends Caller {
  readonly inspections: readonly T[];
  readonly wantsReturns: boolean;
}

/** Stores inspections. `start.ts` creates it, and the use cases get it as an argument. */
export interface InspectionStore {
  /**
   * Stores inspections in returns of any state, in one transaction. A newer inspection of a line item replaces the
   * previous one, which stays in the timeline. An older one is ignored. Each return whose details change gets its next
   * revision and one return.updated.
   *
   * @returns the returns of the line items, in the order of their ids, as many as fit into one response; none without
   *   `batch.wantsReturns`.
   * @throws DomainError LINE_ITEM_NOT_FOUND when a line item does not belong to the shop; RETURN_TOO_LARGE when the
   *   details of a return would become too large. Then no inspection is stored. If the details were too large
   *   before, a change that makes them smaller is stored.
   */
  takeOver<T extends Inspected>(
    batch: Batch<T>,
    kind: InspectionKind<T>,
  ): Promise<readonly Return[]>;
}

/** @param deps.automatic queues a changed return for processing, if its policy says so. */
export function createInspectionStore(
  deps: StoreDeps & { readonly automatic?: AutomaticProcess },
): InspectionStore {
  const { automatic } = deps;
  return {
    async takeOver(batch, kind) {
      const inspections = latestPerLine(batch.inspections, kind.idOf);
      const latest = { ...batch, inspections, automatic };
      try {
        return await changing(deps, batch.shopId, (tx) => takeOverIn(tx, latest, kind));
      } catch (error) {
        if (!isTooLarge(error)) throw error;
        // Returns may be above a limit that a release has lowered. They are measured before the change only after this
        // error, because this reads them twice.
        return changing(deps, batch.shopId, async (tx) => {
          const before = await aboveLimit(tx, batch.shopId, [...latest.inspections.keys()]);
          if (before.size === 0) throw error;
          return takeOverIn(tx, latest, kind, before);
        });
      }
    },
  };
}

/**
 * Stores the inspections in the transaction. @param before size of the details before the change, by id, of returns
 * that were above the limit. Bytes.
 */
async function takeOverIn<T extends Inspected>(
  tx: Queryable,
  by: Caller & {
    readonly inspections: ReadonlyMap<bigint, T>;
    readonly wantsReturns: boolean;
    readonly automatic: AutomaticProcess | undefined;
  },
  kind: InspectionKind<T>,
  before?: ReadonlyMap<bigint, number>,
): Promise<readonly Return[]> {
  const lineItemIds = [...by.inspections.keys()];
  const missing = [...by.inspections.values()].filter(kind.isMissing);
  const mayBeSmall = !by.wantsReturns && missing.length === 0 && !mayHoldLarge(tx);
  const [returnIds, changedIds, small] = await together(tx, () =>
    allInOrder([
      lockReturnsOfLines(tx, by.shopId, lineItemIds),
      store(tx, by, kind),
      mayBeSmall
        ? loadSmall(tx, by.shopId, { lineItemIds, longTextBytes: COPIED_TEXT_BYTES })
        : NONE,
    ]),
  );
  const missingIds = missing.map(({ lineItemId }) => lineItemId);
  await reviewMissingGoods(tx, by, { returnIds: changedIds, lineItemIds: missingIds });
  const shownIds = by.wantsReturns ? returnIds : changedIds;
  let returned: readonly Return[] = [];
  const isRead = small.length > 0;
  for await (const part of isRead ? [shownIds] : fittingParts(tx, by.shopId, shownIds)) {
    const shown = isRead ? small.map((of) => ({ of })) : await loadShown(tx, by, part);
    const changed = shown.filter(({ of }) => changedIds.includes(of.id));
    for (const { of } of changed) {
      if (await by.automatic?.(tx, of)) of.processing = true;
    }
    const updates = changed.map((one) => updateOf(one, before));
    const end = part.length === shownIds.length ? committing : together;
    await end(tx, () => appendReturnEvents(tx, by, updates));
    if (by.wantsReturns) returned = fittingReturns([...returned, ...shown.map(({ of }) => of)]);
  }
  return returned;
}

const NONE: Promise<readonly Return[]> = Promise.resolve([]);

/** A return after the change. When `leftOut` is present, the return has hashes instead of long texts. */
type Shown = Pick<HashedReturn, 'of'> & Partial<HashedReturn>;

async function loadWhole(
  tx: Queryable,
  shopId: bigint,
  ids: readonly bigint[],
): Promise<readonly Shown[]> {
  return (await loadForChange(tx, shopId, ids)).map((of) => ({ of }));
}

/**
 * Reads returns after the change. Those with long texts are read without these texts, because their events do not have
 * them. Reads all returns whole when the caller wants them.
 */
async function loadShown(
  tx: Queryable,
  { shopId, wantsReturns }: { readonly shopId: bigint; readonly wantsReturns: boolean },
  ids: readonly bigint[],
): Promise<readonly Shown[]> {
  const bytes = COPIED_TEXT_BYTES;
  const hashed = wantsReturns ? [] : await idsOfLongTexts(tx, shopId, { ids, bytes });
  if (hashed.length > 0) await requirePermit(tx, () => bytesOfImages(tx, shopId, hashed));
  const whole = ids.filter((id) => !hashed.includes(id));
  return [...(await loadWhole(tx, shopId, whole)), ...(await loadHashed(tx, shopId, hashed))];
}

function isTooLarge(error: unknown): boolean {
  return error instanceof DomainError && error.reason === ErrorReason.RETURN_TOO_LARGE;
}

/** Locks the returns of these line items. @returns the sizes of those above the limit, by id. Bytes. */
async function aboveLimit(
  tx: Queryable,
  shopId: bigint,
  lineItemIds: readonly bigint[],
): Promise<Map<bigint, number>> {
  const returnIds = await lockReturnsOfLines(tx, shopId, lineItemIds);
  const above = new Map<bigint, number>();
  for await (const part of fittingParts(tx, shopId, returnIds)) {
    for (const { of, leftOut } of await loadShown(tx, { shopId, wantsReturns: false }, part)) {
      const bytes = detailsBytes(of) + (leftOut?.jsonBytes ?? 0);
      if (bytes > DETAILS_BYTES_MAX) above.set(of.id, bytes);
    }
  }
  return above;
}

function updateOf({ of, leftOut }: Shown, before: ReadonlyMap<bigint, number> | undefined) {
  const snapshot = { ...encodeReturn(of), isHashed: leftOut !== undefined };
  requireDetailsFit(of, {
    encodedBytes: snapshot.bytes.length,
    leftOut,
    bytesBefore: () => before?.get(of.id),
  });
  return { trigger: 'return.updated' as const, returnId: of.id, snapshot };
}

/** Stores the inspections. @returns the ids of the changed returns, in order. Each has got its next revision. */
async function store<T extends Inspected>(
  tx: Queryable,
  by: Caller & { readonly inspections: ReadonlyMap<bigint, T> },
  kind: InspectionKind<T>,
): Promise<bigint[]> {
  const texts = packTexts();
  const rows = [...by.inspections.values()].map((inspection) => {
    const actor = inspection.actor ?? by.actor;
    return {
      line_item_id: `${inspection.lineItemId}`,
      inspection_id: `${kind.idOf(inspection)}`,
      ...kind.rowOf(inspection, texts),
      ...kind.entryOf(inspection),
      actor_kind: actorKindText.toText(actor.kind),
      actor_id: actor.id,
      actor_name: actor.name,
      actor_through: actor.through,
    };
  });
  const { rows: changed } = await tx.query<{ id: bigint }>({
    ...kind.statement,
    values: [by.shopId, JSON.stringify(rows), [...by.inspections.keys()], texts.bytes()],
  });
  return changed.map((row) => row.id).sort((a, b) => (a < b ? -1 : 1));
}

/** Returns the latest inspection of each line item. The statement would ignore the others. */
function latestPerLine<T extends Inspected>(
  inspections: readonly T[],
  idOf: (inspection: T) => bigint,
): Map<bigint, T> {
  const latest = new Map<bigint, T>();
  for (const inspection of inspections) {
    const other = latest.get(inspection.lineItemId);
    if (!other || idOf(other) < idOf(inspection)) latest.set(inspection.lineItemId, inspection);
  }
  return latest;
}
