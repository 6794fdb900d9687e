import { newestActive, payloadVersionServed, supportedVersions } from '../../contract/versions.ts';
import type { Queryable } from '../../platform/postgres/postgres.ts';
import { invalidField, stateForbids } from '../../platform/values/errors.ts';

/** Returns the version of a shop's payloads. It is the newest active version when the shop has chosen none. */
export async function payloadVersion(db: Queryable, shopId: bigint, today: Date): Promise<string> {
  const { rows } = await db.query<{ version: string }>(
    'select version from payload_versions where shop_id = $1',
    [shopId],
  );
  return rows[0]?.version ?? newestActive(today);
}

/**
 * Returns the version in which the shop gets its payloads today. In place of a retired version, this is the oldest
 * supported one.
 */
export async function servedPayloadVersion(
  db: Queryable,
  shopId: bigint,
  today: Date,
): Promise<string> {
  return payloadVersionServed(await payloadVersion(db, shopId, today), today).version;
}

/**
 * Sets the version for the payloads of later events (interface: Versioning, rules 8 and 9). Members who may manage
 * webhooks choose it in the portal, operators with `npm run admin -- payload-version set`. `createShop` sets the first
 * version.
 *
 * @param o.expected the version that the caller saw, stored or served; empty to set the version in any case.
 * @returns the previous version. It is the same when the shop has the version already, as for a repeated call.
 * @throws DomainError INVALID_ARGUMENT for `unstable` and for versions that are not supported today;
 *   FAILED_PRECONDITION when the current version is neither the expected nor the requested one.
 */
export async function setPayloadVersion(
  db: Queryable,
  shopId: bigint,
  o: { version: string; expected?: string; today: Date },
): Promise<string> {
  const supported = supportedVersions(o.today);
  if (!supported.includes(o.version)) {
    throw invalidField('version', `must be one of ${supported.join(', ')}`);
  }
  const before = await payloadVersion(db, shopId, o.today);
  const seen = payloadVersionServed(before, o.today).version;
  const { rowCount } = await db.query(
    `insert into payload_versions as v (shop_id, version) select $1, $2 where $3 in ('', $4, $5) or $2 = $4
     on conflict (shop_id) do update set version = excluded.version, updated_at = now()
       where $3 = '' or v.version in ($4, excluded.version)`,
    [shopId, o.version, o.expected ?? '', before, seen],
  );
  if (rowCount !== 1)
    throw stateForbids(`the version of the shop is ${before}: somebody changed it`);
  return before;
}
