import { Code } from '@connectrpc/connect';
import { ErrorReason } from '../../../proto/gen/rms/common/v1/error_pb.ts';
import { allInOrder } from '../../platform/all-in-order.ts';
import { DomainError } from '../../platform/errors.ts';
import { type Queryable, together } from '../../platform/postgres.ts';

interface StoredReturn {
  readonly shopId: bigint;
  readonly id: bigint;
  /** This service's id of its order. */
  readonly orderId: bigint;
}

interface LineRow {
  readonly quantity: number;
  readonly ordered_quantity: number | null;
  /** Units of the same order line in other returns that were neither cancelled nor expired. */
  readonly elsewhere: bigint;
  /** Another return that is open or in review and has the line. */
  readonly live_in: bigint | null;
  /** A closed return that refunded the line in full. */
  readonly refunded_by: bigint | null;
}

const LINES = `
select l.quantity, l.ordered_quantity, others.elsewhere, others.live_in, others.refunded_by
  from return_lines l
 cross join lateral (
   select coalesce(sum(o.quantity), 0)::bigint as elsewhere,
          max(o.return_id) filter (where o.live) as live_in,
          max(o.return_id) filter (
            where r.state = 'closed' and o.price - o.discount + o.tax > 0
              and o.refund_item + o.refund_tax >= o.price - o.discount + o.tax) as refunded_by
     from return_lines o
     join returns r on r.shop_id = o.shop_id and r.id = o.return_id
    where o.shop_id = l.shop_id and o.provider_line_item_id = l.provider_line_item_id
      and o.return_id <> l.return_id and o.removed_at is null
      and r.state not in ('cancelled', 'expired')) others
 where l.shop_id = $1 and l.return_id = $2 and l.removed_at is null
 order by l.position`;

/** Why a line item cannot be part of a return. */
interface Obstacle {
  /** Zero-based position of the line item. */
  readonly line: number;
  readonly reason: ErrorReason;
  readonly message: string;
}

/**
 * The first line item of a stored return that must not be part of it, because of another return of the shop:
 *
 * - its order line is in another return that is open or in review;
 * - all returns together, except cancelled and expired ones, would have more units of it than `ordered_quantity`;
 * - it has no `ordered_quantity`, and a closed return refunded it in full.
 *
 * Locks the order until the transaction ends, so that the second of two concurrent returns of one order sees the first.
 */
export async function findObstacle(tx: Queryable, of: StoredReturn): Promise<Obstacle | undefined> {
  const lock = () =>
    tx.query({
      name: 'lock-order',
      text: 'select from orders where shop_id = $1 and id = $2 for no key update',
      values: [of.shopId, of.orderId],
    });
  const read = () =>
    tx.query<LineRow>({
      name: 'returnable-lines',
      text: LINES,
      values: [of.shopId, of.id],
    });
  const [, { rows }] = await together(tx, () => allInOrder([lock(), read()]));
  for (const [line, row] of rows.entries()) {
    const found = obstacleOf(row);
    if (found) return { line, ...found };
  }
  return undefined;
}

/**
 * Requires that a stored return has no obstacle; see {@link findObstacle}.
 *
 * @throws DomainError LINE_IN_LIVE_RETURN; ORDERED_QUANTITY_EXCEEDED; LINE_ALREADY_REFUNDED.
 */
export async function requireReturnable(tx: Queryable, of: StoredReturn): Promise<void> {
  const found = await findObstacle(tx, of);
  if (!found) return;
  const field = `lines[${found.line}]`;
  throw new DomainError(Code.FailedPrecondition, found.reason, found.message, { field });
}

function obstacleOf(row: LineRow): Omit<Obstacle, 'line'> | undefined {
  if (row.live_in !== null) {
    return {
      reason: ErrorReason.LINE_IN_LIVE_RETURN,
      message: `the line item is part of return ${row.live_in}, which is open or in review`,
    };
  }
  if (row.ordered_quantity === null) {
    if (row.refunded_by === null) return undefined;
    return {
      reason: ErrorReason.LINE_ALREADY_REFUNDED,
      message: `return ${row.refunded_by} refunded the line item in full; if more units were ordered, set ordered_quantity`,
    };
  }
  const units = row.elsewhere + BigInt(row.quantity);
  if (units <= BigInt(row.ordered_quantity)) return undefined;
  return {
    reason: ErrorReason.ORDERED_QUANTITY_EXCEEDED,
    message: `${row.ordered_quantity} units were ordered and ${row.elsewhere} of them are in other returns, so ${row.quantity} cannot be returned`,
  };
}
