import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import type { Queryable } from '../../../platform/postgres.ts';

const LISTED = 500;

/** Returns the customers of a shop who asked for their data, newest first, up to 500. */
export async function listDataRequests(db: Queryable, shopId: bigint) {
  const { rows } = await db.query<{
    receivedAt: Date;
    requestId: bigint;
    customerId: bigint;
    orderIds: bigint[];
  }>(
    `select received_at as "receivedAt", request_id as "requestId", customer_id as "customerId",
            order_ids as "orderIds"
       from shopify_data_requests where shop_id = $1 order by id desc limit $2`,
    [shopId, LISTED],
  );
  return rows.map(({ receivedAt, ...row }) => ({
    ...row,
    receivedAt: timestampFromDate(receivedAt),
  }));
}
