import { createHash, randomBytes } from 'node:crypto';
import type pg from 'pg';
import type { Return } from '../../proto/gen/rms/returns/v1/return_pb.ts';
import type { FindShopperReturnRequest } from '../../proto/gen/rms/returns/v1/returns_pb.ts';
import type { Queryable } from '../platform/postgres/postgres.ts';
import { returnNotFound } from './errors.ts';
import type { ReturnReader } from './store/return-reader.ts';

// The links with which shoppers follow their returns: the address of the shop's page, `/s/`, and a token.

const TOKEN_BYTES = 32;

const hashOf = (token: string): Buffer => createHash('sha256').update(token).digest();

/** A new link. @param pageUrl address of the shop's page for shoppers. */
export function newStatusLink(pageUrl: string): { readonly url: string; readonly token: string } {
  const token = randomBytes(TOKEN_BYTES).toString('base64url');
  return { url: `${pageUrl}/s/${token}`, token };
}

/** Makes the token of a return known, in the transaction that stores the return. */
export async function insertStatusLink(
  tx: Queryable,
  o: { readonly shopId: bigint; readonly returnId: bigint; readonly token: string },
): Promise<void> {
  await tx.query({
    name: 'insert-status-link',
    text: 'insert into status_links (shop_id, token_hash, return_id) values ($1, $2, $3)',
    values: [o.shopId, hashOf(o.token), o.returnId],
  });
}

/**
 * Finds the return whose link ends with this token.
 *
 * @throws DomainError RETURN_NOT_FOUND.
 */
export async function findShopperReturn(
  { pool, reader }: { readonly pool: pg.Pool; readonly reader: ReturnReader },
  { shopId, statusToken }: Pick<FindShopperReturnRequest, 'shopId' | 'statusToken'>,
): Promise<Return> {
  const { rows } = await pool.query<{ return_id: bigint }>({
    name: 'find-by-status-token',
    text: 'select return_id from status_links where shop_id = $1 and token_hash = $2',
    values: [shopId, hashOf(statusToken)],
  });
  const [row] = rows;
  const found = row && (await reader.one(shopId, row.return_id, { maxBytes: 0 }));
  if (!found) throw returnNotFound();
  return found;
}

/** Ends the links of returns: their tokens find nothing any more, and the details have none. */
export async function endStatusLinks(
  tx: Queryable,
  shopId: bigint,
  returnIds: readonly bigint[],
): Promise<void> {
  await tx.query(
    `with ended as (
       delete from status_links where shop_id = $1 and return_id = any($2::bigint[]) returning return_id)
     update returns set status_page_url = ''
      where shop_id = $1 and id in (select return_id from ended)`,
    [shopId, returnIds],
  );
}
