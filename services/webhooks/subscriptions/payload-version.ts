import { newestActive, supportedVersions } from '../../contract/versions.ts';
import { invalidField } from '../../platform/errors.ts';
import type { Queryable } from '../../platform/postgres.ts';

/** Returns the version of a shop's payloads; by default the newest active version. */
export async function payloadVersion(db: Queryable, shopId: bigint, today: Date): Promise<string> {
  const { rows } = await db.query<{ version: string }>(
    'select version from payload_versions where shop_id = $1',
    [shopId],
  );
  return rows[0]?.version ?? newestActive(today);
}

/**
 * Sets the version for payloads of later events (interface: Versioning, rules 8 and 9).
 *
 * @throws DomainError INVALID_ARGUMENT for `unstable` and for versions that are not supported today.
 */
export async function setPayloadVersion(
  db: Queryable,
  shopId: bigint,
  o: { version: string; today: Date },
): Promise<void> {
  const supported = supportedVersions(o.today);
  if (!supported.includes(o.version)) {
    throw invalidField('version', `must be one of ${supported.join(', ')}`);
  }
  await db.query(
    `insert into payload_versions (shop_id, version) values ($1, $2)
     on conflict (shop_id) do update set version = excluded.version, updated_at = now()`,
    [shopId, o.version],
  );
}
