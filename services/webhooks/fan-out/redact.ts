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
  const { rows } = await tx.query<StoredPayload>(
    `select p.id, p.topic, p.body, exists (
       select from deliveries d
        where d.shop_id = p.shop_id and d.payload_id = p.id and d.finished_at is null) as "isWaiting"
       from payloads p
      where p.shop_id = $1 and p.return_id = any($2::bigint[]) and p.body is not null
        for update of p`,
    [shopId, returnIds],
  );
  await tx.query(
    `update payloads p set body = new.body, redacted_at = now()
       from unnest($2::bigint[], $3::bytea[]) as new (id, body)
      where p.shop_id = $1 and p.id = new.id`,
    [shopId, rows.map((row) => row.id), rows.map(redactedBody)],
  );
}

interface StoredPayload {
  readonly id: bigint;
  readonly topic: string;
  readonly body: Buffer;
  readonly isWaiting: boolean;
}

function redactedBody(row: StoredPayload): Uint8Array | null {
  if (!row.isWaiting) return null;
  // The bytes are our own: an object, by construction.
  const payload: object = JSON.parse(row.body.toString('utf8'));
  return encodeBody(withoutCustomer(row.topic, payload));
}
