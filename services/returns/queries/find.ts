import { fromBinary } from '@bufbuild/protobuf';
import { Code } from '@connectrpc/connect';
import type pg from 'pg';
import { z } from 'zod';
import { ErrorReason } from '../../../proto/gen/rms/common/v1/error_pb.ts';
import { type Return, ReturnSchema } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import type {
  FindReturnRequest,
  GetReturnsRequest,
  GetSnapshotRequest,
} from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { DomainError, invalidField } from '../../platform/errors.ts';
import { callerShape, id, parseInput } from '../../platform/input.ts';
import type { Queryable } from '../../platform/postgres.ts';
import { returnNotFound } from '../refusals.ts';
import { loadReturn, loadReturns } from '../store/load.ts';

const batch = z.object({
  ...callerShape,
  returnIds: z.array(id).min(1, 'must hold at least one id').max(100, 'must hold at most 100 ids'),
});

/** Reads several returns at once, in the order asked; those that the shop lacks are left out. */
export async function getReturns(pool: pg.Pool, request: GetReturnsRequest): Promise<Return[]> {
  const { shopId, returnIds } = parseInput(batch, request);
  return loadReturns(pool, shopId, returnIds);
}

/**
 * Reads one return by its id, its order's id (the commerce provider's, else ours) or its order's
 * name; of several the newest.
 *
 * @throws DomainError INVALID_ARGUMENT when nothing says which; RETURN_NOT_FOUND.
 */
export async function findReturn(pool: pg.Pool, request: FindReturnRequest): Promise<Return> {
  const returnId = await selected(pool, request);
  const found =
    returnId === undefined ? undefined : await loadReturn(pool, request.shopId, returnId);
  if (!found) throw returnNotFound();
  return found;
}

async function selected(pool: pg.Pool, request: FindReturnRequest): Promise<bigint | undefined> {
  const { shopId, selector } = request;
  switch (selector.case) {
    case 'returnId':
      return selector.value;
    case 'orderId':
      return newestOfOrder(pool, shopId, selector.value);
    case 'orderName':
      return newestNamed(pool, shopId, selector.value);
    case undefined:
      throw invalidField('selector', 'is required');
    default: {
      const unknown: never = selector;
      throw new Error(`unknown selector ${String(unknown)}`);
    }
  }
}

async function newestOfOrder(
  db: Queryable,
  shopId: bigint,
  orderId: bigint,
): Promise<bigint | undefined> {
  // Two index look-ups; ours counts only where the provider knows no such order.
  const { rows } = await db.query<{ id: bigint }>({
    name: 'find-by-order-id',
    text: `select r.id
             from returns r
            where r.shop_id = $1
              and r.order_id = coalesce(
                    (select o.id from orders o where o.shop_id = $1 and o.provider_order_id = $2),
                    $2)
            order by r.created_at desc, r.id desc limit 1`,
    values: [shopId, orderId],
  });
  return rows[0]?.id;
}

async function newestNamed(
  db: Queryable,
  shopId: bigint,
  name: string,
): Promise<bigint | undefined> {
  if (name.includes('\0')) return undefined;
  const { rows } = await db.query<{ id: bigint }>({
    name: 'find-by-order-name',
    text: `select id from returns where shop_id = $1 and order_name = $2
            order by created_at desc, id desc limit 1`,
    values: [shopId, name],
  });
  return rows[0]?.id;
}

const snapshotWish = z.object({ ...callerShape, returnId: id, revision: id });

/**
 * Reads a return as it was at a revision whose event left it out for its size. The present revision
 * is always there; older ones for as long as events are kept.
 *
 * @throws DomainError INVALID_ARGUMENT; RETURN_NOT_FOUND.
 */
export async function getSnapshot(pool: pg.Pool, request: GetSnapshotRequest): Promise<Return> {
  const { shopId, returnId, revision } = parseInput(snapshotWish, request);
  const { rows } = await pool.query<{ value: Uint8Array }>(
    'select value from snapshots where shop_id = $1 and return_id = $2 and revision = $3',
    [shopId, returnId, revision],
  );
  if (rows[0]) return fromBinary(ReturnSchema, rows[0].value);
  const present = await loadReturn(pool, shopId, returnId);
  if (present?.revision === revision) return present;
  if (!present) throw returnNotFound();
  throw new DomainError(
    Code.NotFound,
    ErrorReason.RETURN_NOT_FOUND,
    `the return is not kept as it was at revision ${revision}`,
  );
}
