import type { Queryable } from '../../platform/postgres.ts';
import { encodeBody, withoutCustomer } from './without-customer.ts';

/**
 * A customer was redacted: the stored payloads of those returns are nulled, those still to be
 * sent are shaped anew without the customer, once, and what receivers answered is forgotten.
 */
export async function redactReturns(
  tx: Queryable,
  shopId: bigint,
  returnIds: readonly bigint[],
): Promise<void> {
  await tx.query(
    `insert into redacted_returns (shop_id, return_id) select $1, unnest($2::bigint[])
     on conflict (shop_id, return_id) do update set redacted_at = now()`,
    [shopId, returnIds],
  );
  await tx.query(
    `update attempts a set response_excerpt = '' from deliveries d
      where d.shop_id = $1 and d.return_id = any($2::bigint[])
        and a.shop_id = d.shop_id and a.delivery_id = d.id`,
    [shopId, returnIds],
  );
  let after = 0n;
  for (;;) {
    const ids = await lockPayloads(tx, { shopId, returnIds, after });
    const last = ids.at(-1);
    if (last === undefined) return;
    await redactPayloads(tx, shopId, ids);
    after = last;
  }
}

/** Payloads locked by one statement. */
const BATCH = 100;

/** In the order of their ids, so that two redactions cannot deadlock. */
async function lockPayloads(
  tx: Queryable,
  o: { shopId: bigint; returnIds: readonly bigint[]; after: bigint },
): Promise<bigint[]> {
  const { rows } = await tx.query<{ id: bigint }>(
    `select p.id from payloads p
      where p.shop_id = $1 and p.return_id = any($2::bigint[]) and p.body is not null and p.id > $3
      order by p.id limit $4
        for update of p`,
    [o.shopId, o.returnIds, o.after, BATCH],
  );
  return rows.map((row) => row.id);
}

/**
 * What waits is judged by a statement after the lock, which sees the replay that the lock waited
 * for. Bodies are large: one at a time is here.
 */
async function redactPayloads(
  tx: Queryable,
  shopId: bigint,
  ids: readonly bigint[],
): Promise<void> {
  const { rows } = await tx.query<{ id: bigint }>(
    `select p.id from payloads p
      where p.shop_id = $1 and p.id = any($2::bigint[]) and exists (
        select from deliveries d
         where d.shop_id = p.shop_id and d.payload_id = p.id and d.finished_at is null)
      order by p.id`,
    [shopId, ids],
  );
  const waiting = rows.map((row) => row.id);
  await tx.query(
    `update payloads set body = null, redacted_at = now()
      where shop_id = $1 and id = any($2::bigint[]) and id <> all($3::bigint[])`,
    [shopId, ids, waiting],
  );
  for (const id of waiting) await shapeAnew(tx, shopId, id);
}

async function shapeAnew(tx: Queryable, shopId: bigint, id: bigint): Promise<void> {
  const { rows } = await tx.query<{ topic: string; body: Buffer }>(
    'select topic, body from payloads where shop_id = $1 and id = $2 and body is not null',
    [shopId, id],
  );
  for (const { topic, body } of rows) {
    // The bytes are our own: an object, by construction.
    const payload: object = JSON.parse(body.toString('utf8'));
    await tx.query(
      'update payloads set body = $3, redacted_at = now() where shop_id = $1 and id = $2',
      [shopId, id, encodeBody(withoutCustomer(topic, payload))],
    );
  }
}
