import { Code } from '@connectrpc/connect';
import type { Pool } from 'pg';
import { ErrorReason } from '../../proto/gen/rms/common/v1/error_pb.ts';
import { type Return as Details, ReturnState } from '../../proto/gen/rms/returns/v1/return_pb.ts';
import type { CommerceProvider } from '../commerce/provider.ts';
import { unitsIn } from '../commerce/remaining.ts';
import { unitsRefundedThere } from '../commerce/reported-refunds.ts';
import { allInOrder } from '../platform/postgres/all-in-order.ts';
import { type Queryable, together } from '../platform/postgres/postgres.ts';
import { DomainError } from '../platform/values/errors.ts';
import { lockOrder } from './inbound/lock-order.ts';
import { exceedsGoods } from './money/goods-limit.ts';
import { beyondMoney, type KnownOfOrder, knownOfOrder } from './money/money-limit.ts';
import { exceedsPaidShipping } from './money/paid-shipping.ts';
import { Return, type ReturnRef, type StateChange } from './return.ts';
import type { NewTimelineEntry } from './store/timeline-store.ts';

/** A return by its ids, and its order. */
interface StoredReturn {
  readonly shopId: bigint;
  readonly id: bigint;
  readonly order?:
    | {
        /** This service's id of the order. */
        readonly id: bigint;
        readonly providerOrderId: bigint;
      }
    | undefined;
  /** Expired returns that the same change opens again. Their units count, although they are still stored as expired. */
  readonly openingIds?: readonly bigint[];
}

interface LineRow {
  readonly provider_line_item_id: bigint;
  readonly quantity: number;
  /**
   * Number of ordered units: the smaller of the submitted number and the number that the provider reported. Without a
   * submitted number, that of another return of the order line counts. Null when none is known.
   */
  readonly ordered: bigint | null;
  /** Whether the provider has reported how many units were ordered. */
  readonly ordered_there: boolean;
  /** Number of units that were refunded at the provider, and not by this service. */
  readonly refunded_there: bigint;
  /** Whether the provider has cancelled the order. */
  readonly cancelled_there: boolean;
  /** Number of units of the same order line in other returns, except cancelled and expired ones. */
  readonly elsewhere: bigint;
  /** Id of another return that has the order line and is open or in review. */
  readonly live_in: bigint | null;
  /** Id of a closed return that refunded the order line completely. */
  readonly refunded_by: bigint | null;
}

const REFUNDED_THERE = unitsRefundedThere({
  shop: 'l.shop_id',
  order: 't.provider_order_id',
  line: 'l.provider_line_item_id',
});

const LINES = `
select l.provider_line_item_id, l.quantity, least(coalesce(l.ordered_quantity, others.ordered), there.quantity) as ordered,
       there.quantity is not null as ordered_there, ${REFUNDED_THERE} as refunded_there,
       known.cancelled_at is not null as cancelled_there,
       others.elsewhere, others.live_in, others.refunded_by
  from return_lines l
  join returns own on own.shop_id = l.shop_id and own.id = l.return_id
  join orders t on t.shop_id = own.shop_id and t.id = own.order_id
  left join inbound_orders known
    on known.shop_id = t.shop_id and known.provider_order_id = t.provider_order_id
  left join inbound_order_lines there
    on there.shop_id = t.shop_id and there.provider_order_id = t.provider_order_id
   and there.provider_line_item_id = l.provider_line_item_id
 cross join lateral (
   select coalesce(sum(${unitsIn('o', 'r')}), 0)::bigint as elsewhere,
          min(o.ordered_quantity) as ordered, max(o.return_id) filter (where o.live or r.state = 'expired') as live_in,
          max(o.return_id) filter (
            where r.state = 'closed' and o.price - o.discount + o.tax > 0 and coalesce(o.refunded_quantity, o.quantity) = o.quantity
              and o.refund_item + o.refund_tax >= o.price - o.discount + o.tax) as refunded_by
     from return_lines o
     join returns r on r.shop_id = o.shop_id and r.id = o.return_id
    where o.shop_id = l.shop_id and o.provider_line_item_id = l.provider_line_item_id
      and o.return_id <> l.return_id and o.removed_at is null
      and (r.state not in ('cancelled', 'expired') or r.id = any($3::bigint[]))) others
 where l.shop_id = $1 and l.return_id = $2 and l.removed_at is null
 order by l.position`;

/** A reason why a line item, or all line items, cannot be in a return. */
interface Obstacle {
  /** Path of the field: of a line item, or of the order. */
  readonly field: string;
  readonly reason: ErrorReason;
  readonly message: string;
  /** What has the units. */
  readonly taken: Taken;
}

/** The order was cancelled, or who has the units: other returns that are open or closed, or refunds at the provider. */
type Taken = 'cancelled' | 'open' | 'closed' | 'refunded';

/** The error of a line item, or an order, that cannot be in a return. */
export class NotReturnable extends DomainError {
  readonly taken: Taken;

  constructor({ field, reason, message, taken }: Obstacle) {
    super(Code.FailedPrecondition, reason, message, { field });
    this.taken = taken;
  }
}

/**
 * Returns the first reason why a stored return must not have its line items. It is about another return of the shop, or
 * about what the commerce provider reported of the order:
 *
 * - the provider has cancelled the order;
 * - more units would be returned than were ordered. The units of all returns count, except cancelled and expired
 *   returns. Units that were refunded at the provider count, too. The number of ordered units is what the provider
 *   reported, or a smaller `ordered_quantity`;
 * - the number of ordered units is not known, and the order line is in another return that is open or in review, a
 *   closed return refunded the line item completely, or some of its units were refunded at the provider.
 *
 * Locks the order until the transaction ends, so that the second of two concurrent returns of one order sees the first.
 */
async function findObstacle(tx: Queryable, of: StoredReturn): Promise<Obstacle | undefined> {
  const { shopId, order } = of;
  const lock = () =>
    tx.query({
      name: 'lock-order',
      text: 'select from orders where shop_id = $1 and id = $2 for no key update',
      values: [shopId, order?.id ?? 0n],
    });
  const wait = () => lockOrder(tx, { shopId, providerOrderId: order?.providerOrderId ?? 0n });
  const [, , rows] = await together(tx, () => allInOrder([lock(), wait(), linesOf(tx, of)]));
  return firstObstacle(rows);
}

/**
 * Returns the first obstacle that {@link findObstacle} would find, but only for what the commerce provider reported of
 * the order, or that its refunds have left too little money. Locks nothing. A return with such an obstacle must not be
 * paid. The caller must hold the row lock of the return. To record what the provider reports, a transaction needs this
 * lock, too.
 *
 * @param of the return with the units that would be paid.
 * @param known what {@link knownBeforePayment} returned.
 * @throws CommerceFailure as {@link beyondMoney}.
 */
export async function findObstacleThere(
  tx: Queryable,
  of: Details,
  known: KnownOfOrder,
): Promise<Obstacle | undefined> {
  const found = await findUnitsTakenThere(tx, of);
  const money = found ? undefined : await beyondMoney(tx, of, known.limit);
  return money === undefined ? found : { ...REFUNDED_THERE_BY_AMOUNT, message: money };
}

async function findUnitsTakenThere(tx: Queryable, of: Pick<StoredReturn, 'shopId' | 'id'>) {
  const rows = await linesOf(tx, of);
  return firstObstacle(
    rows
      .filter((row) => row.cancelled_there || row.ordered_there || row.refunded_there > 0n)
      .map((row) => ({ ...row, live_in: null, refunded_by: null })),
  );
}

/** Does {@link knownOfOrder} before a payment. When units are missing already, the provider is not asked. */
export function knownBeforePayment(
  pool: Pool,
  of: ReturnRef,
  commerceOf: () => Promise<CommerceProvider | undefined>,
): Promise<KnownOfOrder> {
  return knownOfOrder(pool, of, async () => {
    const isStopped = await findUnitsTakenThere(pool, { shopId: of.shopId, id: of.returnId });
    return isStopped ? undefined : commerceOf();
  });
}

const REFUNDED_THERE_BY_AMOUNT = {
  field: 'order',
  reason: ErrorReason.LINE_ALREADY_REFUNDED,
  taken: 'refunded',
} as const;

async function linesOf(
  tx: Queryable,
  { shopId, id, openingIds = [] }: Omit<StoredReturn, 'order'>,
): Promise<LineRow[]> {
  const { rows } = await tx.query<LineRow>({
    name: 'returnable-lines',
    text: LINES,
    values: [shopId, id, openingIds],
  });
  return rows;
}

function firstObstacle(rows: readonly LineRow[]): Obstacle | undefined {
  for (const [line, row] of rows.entries()) {
    const found = obstacleOf(row);
    if (found) return { field: `lines[${line}]`, taken: takenBy(row), ...found };
  }
  return undefined;
}

/**
 * Requires that a stored return has no obstacle; see {@link findObstacle}.
 *
 * @throws NotReturnable LINE_IN_LIVE_RETURN; ORDERED_QUANTITY_EXCEEDED; LINE_ALREADY_REFUNDED; STATE_FORBIDS for an order
 *   that the provider has cancelled.
 */
export async function requireReturnable(tx: Queryable, of: StoredReturn): Promise<void> {
  const found = await findObstacle(tx, of);
  if (found) throw new NotReturnable(found);
}

/** The parts of a change that reopen a return. */
export interface Reopening {
  readonly stateChanges: readonly StateChange[];
  readonly timeline: readonly NewTimelineEntry[];
}

/**
 * Opens an expired return again, because its goods moved or arrived and must be processed. When other returns have
 * taken its units, its shipping or its money, the return stays expired, and a timeline entry says why. A return that is
 * not expired does not change.
 *
 * @param why what happened, for the timeline.
 * @param openingIds the returns that the same change opens again.
 * @returns what the caller adds to its change, which it makes under the lock of the return.
 */
export async function reopening(
  tx: Queryable,
  current: Details,
  why: string,
  openingIds: readonly bigint[] = [],
): Promise<Reopening> {
  if (current.state !== ReturnState.EXPIRED) return { stateChanges: [], timeline: [] };
  const obstacle = await findObstacle(tx, { ...current, openingIds });
  const because = obstacle?.message ?? (await missingMoney(tx, current, openingIds));
  if (because !== undefined) {
    const text = `${why}, but the return stays expired: ${because}`;
    const entry = { returnId: current.id, kind: 'return.stays_expired', text };
    return { stateChanges: [], timeline: [entry] };
  }
  const text = `${why}: the return is open again`;
  return {
    stateChanges: [new Return(current).reopen()],
    timeline: [{ returnId: current.id, kind: 'return.reopened', text }],
  };
}

/** Says which money of a return is gone; undefined when all of it is left. */
async function missingMoney(
  tx: Queryable,
  current: Details,
  openingIds: readonly bigint[],
): Promise<string | undefined> {
  if (await exceedsPaidShipping(tx, current, openingIds)) {
    return 'other returns refund the shipping that the order paid';
  }
  if (!(await exceedsGoods(tx, current, openingIds))) return undefined;
  return 'less than its value is left of what was paid for the goods of the order';
}

function takenBy({ live_in, refunded_there }: LineRow): Taken {
  if (live_in !== null) return 'open';
  return refunded_there > 0n ? 'refunded' : 'closed';
}

type FoundObstacle = Pick<Obstacle, 'reason' | 'message'>;

function obstacleOf(row: LineRow): (FoundObstacle & Partial<Obstacle>) | undefined {
  const { ordered, elsewhere, quantity } = row;
  if (row.cancelled_there) {
    const message = 'the order was cancelled at the commerce provider';
    const reason = ErrorReason.STATE_FORBIDS;
    return { field: 'order', reason, message, taken: 'cancelled' };
  }
  if (ordered === null) return unknownQuantityObstacle(row);
  const units = elsewhere + row.refunded_there + BigInt(quantity);
  if (units <= ordered) return undefined;
  const there =
    row.refunded_there === 0n
      ? ''
      : `, and ${row.refunded_there} were refunded at the commerce provider`;
  return {
    reason: ErrorReason.ORDERED_QUANTITY_EXCEEDED,
    message: `order line ${row.provider_line_item_id}: ${ordered} units were ordered and ${elsewhere} of them are in other returns${there}, so ${quantity} cannot be returned`,
  };
}

/** The obstacle of a line item when the number of ordered units is not known. */
function unknownQuantityObstacle(row: LineRow): FoundObstacle | undefined {
  if (row.live_in !== null) {
    return {
      reason: ErrorReason.LINE_IN_LIVE_RETURN,
      message: `the line item is part of return ${row.live_in}, which is open or in review; if more units were ordered, set ordered_quantity`,
    };
  }
  const reason = ErrorReason.LINE_ALREADY_REFUNDED;
  if (row.refunded_there > 0n) {
    const message = `order line ${row.provider_line_item_id}: ${row.refunded_there} units were refunded at the commerce provider, and it is not known how many were ordered`;
    return { reason, message };
  }
  if (row.refunded_by === null) return undefined;
  const message = `return ${row.refunded_by} refunded the line item in full; if more units were ordered, set ordered_quantity`;
  return { reason, message };
}
