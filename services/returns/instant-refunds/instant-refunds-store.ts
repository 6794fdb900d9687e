import type { Queryable } from '../../platform/postgres.ts';
import { minorOf } from '../money/money.ts';

interface OfReturn {
  readonly shopId: bigint;
  readonly returnId: bigint;
}

/** A credit as it is stored. */
export interface CreditRow {
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
 * The states of a credit that was paid for good, as a list in SQL: the goods came, or charging the shopper's card back
 * failed.
 */
export const PAID_FOR_GOOD = "'returned', 'charge_failed'";

/**
 * Whether the shopper keeps the money of an instant refund of the return. Then its lines are paid, and not free for
 * another return. Does not wait for a transaction that is ending a credit at this moment.
 */
export async function isPaidForGood(tx: Queryable, of: OfReturn): Promise<boolean> {
  const { rowCount } = await tx.query({
    name: 'credit-paid-for-good',
    text: `select from instant_refunds
           where shop_id = $1 and return_id = $2 and state in (${PAID_FOR_GOOD}) limit 1`,
    values: [of.shopId, of.returnId],
  });
  return rowCount !== 0;
}

/** The instant refunds of a return, as processing needs them. */
export interface Credits {
  /** Whether one is open. */
  readonly hasOpen: boolean;
  /** The sum that was paid for good, in minor units of `currency`. */
  paidMinor(currency: string): bigint;
}

/** A caller that decides by the result holds the return's row lock. */
export async function creditsOf(tx: Queryable, of: OfReturn): Promise<Credits> {
  const { rows } = await tx.query<{ amount: string; is_open: boolean }>({
    name: 'credits-of-return',
    text: `select amount, state = 'open' as is_open from instant_refunds
           where shop_id = $1 and return_id = $2 and state in ('open', ${PAID_FOR_GOOD})`,
    values: [of.shopId, of.returnId],
  });
  const paid = rows.filter((row) => !row.is_open);
  return {
    hasOpen: paid.length < rows.length,
    paidMinor: (currency) => paid.reduce((sum, row) => sum + minorOf(row.amount, currency), 0n),
  };
}

export async function readCredit(
  db: Queryable,
  shopId: bigint,
  id: bigint,
): Promise<CreditRow | undefined> {
  const { rows } = await db.query<CreditRow>(
    `select ${COLUMNS} from instant_refunds where shop_id = $1 and id = $2`,
    [shopId, id],
  );
  return rows[0];
}

/** Reads a credit of the shop and locks it, so that only one call ends it. */
export async function lockCredit(
  tx: Queryable,
  shopId: bigint,
  id: bigint,
): Promise<CreditRow | undefined> {
  const { rows } = await tx.query<CreditRow>(
    `select ${COLUMNS} from instant_refunds where shop_id = $1 and id = $2 for update`,
    [shopId, id],
  );
  return rows[0];
}

export interface NewCredit extends OfReturn {
  readonly amount: string;
  readonly currency: string;
  readonly chargeReference: string;
}

/** Adds an open credit. Violates `instant_refunds_one_open` when the return has one already. */
export async function insertCredit(tx: Queryable, credit: NewCredit): Promise<bigint> {
  const { rows } = await tx.query<{ id: bigint }>(
    `insert into instant_refunds (shop_id, return_id, amount, currency, charge_reference)
     values ($1, $2, $3, $4, $5) returning id`,
    [credit.shopId, credit.returnId, credit.amount, credit.currency, credit.chargeReference],
  );
  const [row] = rows;
  if (!row) throw new Error('a credit was not stored');
  return row.id;
}

/** Ends an open credit. The column `settled_at` is the time of the end. */
export async function endCredit(
  tx: Queryable,
  o: { shopId: bigint; id: bigint; state: string },
): Promise<void> {
  await tx.query(
    'update instant_refunds set state = $3, settled_at = now() where shop_id = $1 and id = $2',
    [o.shopId, o.id, o.state],
  );
}
