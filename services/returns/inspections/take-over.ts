import type pg from 'pg';
import type { Return } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { inTransaction, type Queryable } from '../../platform/postgres.ts';
import { returnsOfLines } from '../store/line-owners.ts';
import type { NewTimelineEntry } from '../store/timeline-store.ts';
import { type Changer, changeReturnsIn } from '../store/transition.ts';

/** Of which line an inspection is. */
interface OfLine {
  readonly lineItemId: bigint;
}

/** A line whose stored inspection was replaced. */
export interface AppliedRow {
  readonly line_item_id: bigint;
  readonly return_id: bigint;
}

/** How one kind of inspection is stored and told of. */
export interface InspectionKind<T extends OfLine, Row extends AppliedRow> {
  /** Grows per line: the dispositions service's own id. */
  readonly idOf: (inspection: T) => bigint;
  /** Stores what is newer than what is there; answers those lines with what was there before. */
  readonly store: (tx: Queryable, shopId: bigint, inspections: readonly T[]) => Promise<Row[]>;
  readonly entryOf: (inspection: T, row: Row) => NewTimelineEntry;
}

/**
 * Takes over inspections, in any state of the returns, in one transaction. One that is not newer
 * than the line's last changes nothing; a newer one replaces the former, which the timeline keeps.
 *
 * @returns the returns concerned, by id.
 * @throws DomainError LINE_ITEM_NOT_FOUND when a line is not the shop's, and then none is taken over.
 */
export async function takeOver<T extends OfLine, Row extends AppliedRow>(
  pool: pg.Pool,
  by: Changer & { readonly inspections: readonly T[] },
  kind: InspectionKind<T, Row>,
): Promise<readonly Return[]> {
  const wanted = latestPerLine(by.inspections, kind.idOf);
  return inTransaction(pool, async (tx) => {
    const returnIds = await returnsOfLines(tx, by.shopId, [...wanted.keys()], { removedToo: true });
    const changed = await changeReturnsIn(tx, { ...by, returnIds }, async (inside) => {
      const applied = await kind.store(inside, by.shopId, [...wanted.values()]);
      const timeline = applied.flatMap((row) => {
        const inspection = wanted.get(row.line_item_id);
        return inspection ? [kind.entryOf(inspection, row)] : [];
      });
      return { value: undefined, timeline };
    });
    return changed.returns;
  });
}

/** Of several inspections of one line the latest: an older one would be ignored after it. */
function latestPerLine<T extends OfLine>(
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
