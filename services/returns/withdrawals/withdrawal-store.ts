import { create } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import { Code } from '@connectrpc/connect';
import { ErrorReason } from '../../../proto/gen/rms/common/v1/error_pb.ts';
import {
  type Withdrawal,
  WithdrawalSchema,
} from '../../../proto/gen/rms/returns/v1/withdrawals_pb.ts';
import { onlyRow } from '../../platform/postgres/only-row.ts';
import type { Queryable } from '../../platform/postgres/postgres.ts';
import { DomainError } from '../../platform/values/errors.ts';

interface WithdrawalRow {
  readonly shop_id: bigint;
  readonly id: bigint;
  readonly order_name: string;
  readonly name: string;
  readonly email: string;
  readonly declared_at: Date;
  readonly return_id: bigint | null;
}

const SELECT = `
select w.shop_id, w.id, w.order_name, w.name, w.email, w.declared_at, r.return_id
  from withdrawals w
  left join withdrawal_returns r on r.shop_id = w.shop_id and r.withdrawal_id = w.id
 where w.shop_id = $1`;

function toWithdrawal(row: WithdrawalRow): Withdrawal {
  return create(WithdrawalSchema, {
    shopId: row.shop_id,
    id: row.id,
    orderName: row.order_name,
    name: row.name,
    email: row.email,
    declaredAt: timestampFromDate(row.declared_at),
    returnId: row.return_id ?? 0n,
  });
}

/** Stores a withdrawal. @returns its id. */
export async function insertWithdrawal(
  tx: Queryable,
  o: {
    readonly shopId: bigint;
    readonly orderName: string;
    readonly name: string;
    readonly email: string;
    readonly declaredAt: Date;
  },
): Promise<bigint> {
  const result = await tx.query<{ id: bigint }>(
    `insert into withdrawals (shop_id, order_name, name, email, declared_at)
     values ($1, $2, $3, $4, $5) returning id`,
    [o.shopId, o.orderName, o.name, o.email, o.declaredAt],
  );
  return onlyRow(result).id;
}

/** @throws DomainError NOT_FOUND when the shop has no such withdrawal. */
export async function loadWithdrawal(
  db: Queryable,
  shopId: bigint,
  id: bigint,
): Promise<Withdrawal> {
  const { rows } = await db.query<WithdrawalRow>(`${SELECT} and w.id = $2`, [shopId, id]);
  const [row] = rows;
  if (row) return toWithdrawal(row);
  throw new DomainError(Code.NotFound, ErrorReason.UNSPECIFIED, 'the shop has no such withdrawal');
}

/** The withdrawals of a shop, newest first. @param before only those with smaller ids; null for all. */
export async function readWithdrawals(
  db: Queryable,
  shopId: bigint,
  { before, limit }: { readonly before: string | null; readonly limit: number },
): Promise<Withdrawal[]> {
  const { rows } = await db.query<WithdrawalRow>(
    `${SELECT} and ($2::bigint is null or w.id < $2) order by w.id desc limit $3`,
    [shopId, before, limit],
  );
  return rows.map(toWithdrawal);
}

/** A withdrawal of which a worker makes a return. */
export interface WithdrawalJob {
  readonly shopId: bigint;
  readonly withdrawalId: bigint;
  /** Tries, with this one. */
  readonly attempts: number;
}

/** Lets a worker make a return of a withdrawal. */
export async function insertJob(
  tx: Queryable,
  shopId: bigint,
  withdrawalId: bigint,
): Promise<void> {
  await tx.query('insert into withdrawal_jobs (shop_id, withdrawal_id) values ($1, $2)', [
    shopId,
    withdrawalId,
  ]);
}

/** Takes a due job for five minutes. Undefined when there is none. */
export async function claimJob(db: Queryable): Promise<WithdrawalJob | undefined> {
  const { rows } = await db.query<WithdrawalJob>({
    name: 'claim-withdrawal-job',
    text: `update withdrawal_jobs set due_at = now() + interval '5 minutes', attempts = attempts + 1
            where (shop_id, withdrawal_id) = (
              select shop_id, withdrawal_id from withdrawal_jobs where due_at <= now()
               order by due_at limit 1 for update skip locked)
           returning shop_id as "shopId", withdrawal_id as "withdrawalId", attempts`,
    values: [],
  });
  return rows[0];
}

export async function deleteJob(
  db: Queryable,
  { shopId, withdrawalId }: WithdrawalJob,
): Promise<void> {
  await db.query('delete from withdrawal_jobs where shop_id = $1 and withdrawal_id = $2', [
    shopId,
    withdrawalId,
  ]);
}

/** Notes the return that is made of a withdrawal, in its transaction. The withdrawal has none yet. */
export async function insertWithdrawalReturn(
  tx: Queryable,
  o: { readonly shopId: bigint; readonly withdrawalId: bigint; readonly returnId: bigint },
): Promise<void> {
  await tx.query(
    'insert into withdrawal_returns (shop_id, withdrawal_id, return_id) values ($1, $2, $3)',
    [o.shopId, o.withdrawalId, o.returnId],
  );
}
