import { createHash } from 'node:crypto';
import { onlyRow } from '../../platform/only-row.ts';
import type { Queryable } from '../../platform/postgres.ts';

/** Returns the id of the endpoint of a URL. Creates a missing endpoint. */
export async function endpointOf(tx: Queryable, shopId: bigint, url: string): Promise<bigint> {
  const hash = createHash('sha256').update(url).digest();
  // The update changes nothing. Without it, `returning` would have no row for an endpoint that already exists.
  const result = await tx.query<{ id: bigint }>(
    `insert into endpoints (shop_id, url, url_sha256) values ($1, $2, $3)
     on conflict (shop_id, url_sha256) do update set url = excluded.url
     returning id`,
    [shopId, url, hash],
  );
  return onlyRow(result).id;
}
