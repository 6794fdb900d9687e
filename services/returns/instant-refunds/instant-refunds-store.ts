import type { Queryable } from '../../platform/postgres/postgres.ts';
import { minorOf } from '../../platform/values/money.ts';
import type { ReturnRef } from '../return.ts';

/** A stored instant refund. */
export interface InstantRefundRow {
  readonly id: bigint;
  readonly return_id: bigint;
  readonly amount: string;
  readonly currency: string;
  readonly charge_reference: string;
  readonly state: string;
  readonly created_at: Date;
}

const COLUMNS = 'id, return_id, amount, currency, charge_reference, state, created_at';

/**
 * SQL: the list of states in which the shopper keeps the instant refund. Either the goods arrived, or the charge of the
 * shopper's card failed.
 */
export const KEPT = "'returned', 'charge_failed'";

/**
 * Whether the shopper keeps an instant refund of the return. Then its line items are paid, and another return must not
 * have them. Does not wait for a concurrent transaction that ends an instant refund.
 */
export async function isInstantRefundKept(tx: Queryable, ofReturn: ReturnRef): Promise<boolean> {
  const { rowCount } = await tx.query({
    name: 'instant-refund-kept',
    text: `select from instant_refunds
           where shop_id = $1 and return_id = $2 and state in (${KEPT}) limit 1`,
    values: [ofReturn.shopId, ofReturn.returnId],
  });
  return rowCount !== 0;
}

/** The instant refunds of a return, as processing needs them. */
export interface InstantRefunds {
  /** Whether an instant refund is open. */
  readonly hasOpen: boolean;
  /** Returns the total that the shopper keeps, in minor units of `currency`. */
  paidMinor(currency: string): bigint;
}

/** A caller that decides by the result must hold the return's row lock. */
export async function instantRefundsOf(
  tx: Queryable,
  ofReturn: ReturnRef,
): Promise<InstantRefunds> {
  const { rows } = await tx.query<{ amount: string; is_open: boolean }>({
    name: 'instant-refunds-of-return',
    text: `select amount, state = 'open' as is_open from instant_refunds
           where shop_id = $1 and return_id = $2 and state in ('open', ${KEPT})`,
    values: [ofReturn.shopId, ofReturn.returnId],
  });
  const paid = rows.filter((row) => !row.is_open);
  return {
    hasOpen: paid.length < rows.length,
    paidMinor: (currency) => paid.reduce((sum, row) => sum + minorOf(row.amount, currency), 0n),
  };
}

/** Returns all instant refunds of a return, oldest first. */
export async function listInstantRefunds(
  db: Queryable,
  ofReturn: ReturnRef,
): Promise<InstantRefundRow[]> {
  const { rows } = await db.query<InstantRefundRow>(
    `select ${COLUMNS} from instant_refunds where shop_id = $1 and return_id = $2 order by id`,
    [ofReturn.shopId, ofReturn.returnId],
  );
  return rows;
}

export async function readInstantRefund(
  db: Queryable,
  shopId: bigint,
  id: bigint,
): Promise<InstantRefundRow | undefined> {
  const { rows } = await db.query<InstantRefundRow>(
    `select ${COLUMNS} from instant_refunds where shop_id = $1 and id = $2`,
    [shopId, id],
  );
  return rows[0];
}

/** Reads an instant refund of the shop and locks it, so that only one call ends it. */
export async function lockInstantRefund(
  tx: Queryable,
  shopId: bigint,
  id: bigint,
): Promise<InstantRefundRow | undefined> {
  const { rows } = await tx.query<InstantRefundRow>(
    `select ${COLUMNS} from instant_refunds where shop_id = $1 and id = $2 for update`,
    [shopId, id],
  );
  return rows[0];
}

export interface NewInstantRefund extends ReturnRef {
  readonly amount: string;
  readonly currency: string;
  readonly chargeReference: string;
}

/** Adds an open instant refund. Violates `instant_refunds_one_open` when the return has one already. */
export async function insertInstantRefund(
  tx: Queryable,
  instantRefund: NewInstantRefund,
): Promise<bigint> {
  const { rows } = await tx.query<{ id: bigint }>(
    `insert into instant_refunds (shop_id, return_id, amount, currency, charge_reference)
     values ($1, $2, $3, $4, $5) returning id`,
    [
      instantRefund.shopId,
      instantRefund.returnId,
      instantRefund.amount,
      instantRefund.currency,
      instantRefund.chargeReference,
    ],
  );
  const [row] = rows;
  if (!row) throw new Error('an instant refund was not stored');
  return row.id;
}

/** Ends an open instant refund. The column `settled_at` is the time of the end. */
export async function endInstantRefund(
  tx: Queryable,
  o: { shopId: bigint; id: bigint; state: string },
): Promise<void> {
  await tx.query(
    'update instant_refunds set state = $3, settled_at = now() where shop_id = $1 and id = $2',
    [o.shopId, o.id, o.state],
  );
}
