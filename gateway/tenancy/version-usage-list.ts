import type { Queryable } from '../../services/platform/postgres.ts';

/** The requests of one credential to one version within 90 days. */
export interface VersionUsageRow {
  /** The version in the path; empty when the path has none. */
  readonly requested: string;
  readonly credentialKind: 'api_key' | 'partner_app';
  /** Key id or client id. */
  readonly credentialId: string;
  /** Description of an API key; null for apps. */
  readonly description: string | null;
  /** Why an API key no longer works; empty when it works, and for apps. */
  readonly credentialState: '' | 'revoked' | 'expired';
  readonly requests: bigint;
  readonly lastAt: Date;
  readonly lastOperation: string;
}

/** Which credentials of the shop called which versions, last use first. */
export async function listVersionUsage(
  db: Queryable,
  { shopId, limit }: { readonly shopId: bigint; readonly limit: number },
): Promise<VersionUsageRow[]> {
  const { rows } = await db.query<VersionUsageRow>(
    `select u.requested, u.credential_kind as "credentialKind", u.credential_id as "credentialId", k.description,
            case when k.revoked_at is not null then 'revoked' when k.expires_at <= now() then 'expired' else '' end
              as "credentialState",
            sum(u.requests)::bigint as requests, max(u.last_at) as "lastAt",
            (array_agg(u.last_operation order by u.last_at desc))[1] as "lastOperation"
       from version_usage u
       left join api_keys k
         on u.credential_kind = 'api_key' and k.shop_id = u.shop_id and k.key_id = u.credential_id
      where u.shop_id = $1 and u.day > (now() at time zone 'UTC')::date - 90
      group by u.requested, u.credential_kind, u.credential_id, k.description, k.revoked_at, k.expires_at
      order by max(u.last_at) desc, u.credential_id limit $2`,
    [shopId, limit],
  );
  return rows;
}
