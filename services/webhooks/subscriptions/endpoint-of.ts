import { createHash } from 'node:crypto';
import type { Queryable } from '../../platform/postgres.ts';

/** Returns the id of the endpoint of a URL. Creates a missing endpoint. */
export async function endpointOf(tx: Queryable, shopId: bigint, url: string): Promise<bigint> {
  const hash = createHash('sha256').update(url).digest();
  const { rows } = await tx.query<{ id: bigint }>(
    `with created as (
       insert into endpoints (shop_id, url, url_sha256) values ($1, $2, $3)
       on conflict (shop_id, url_sha256) do update set url = excluded.url
       returning id
     )
     select id from created`,
    [shopId, url, hash],
  );
  return rows[0]?.id ?? 0n;
}
