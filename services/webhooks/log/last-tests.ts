import type { Queryable } from '../../platform/postgres.ts';
import { param, raw, sql, unnamed } from '../../platform/sql.ts';
import {
  type HydratedRow,
  hydrated,
  LOGGED_COLUMNS,
  type LoggedDelivery,
  logged,
  stateOf,
} from './rows.ts';

/** Maximum number of test events of each subscription that are searched for one in the version, newest first. */
const MAX_SEARCHED = 100;

/**
 * Returns the last test event in a version of each subscription that is not deleted, with its attempts, newest first.
 * Subscriptions without one among their newest test events are left out. One statement, over indexes only.
 */
export async function lastTests(
  db: Queryable,
  { shopId, version }: { readonly shopId: bigint; readonly version: string },
): Promise<LoggedDelivery[]> {
  const shop = param(shopId);
  // The index of test events is on each day of the log. Without the inner limits, PostgreSQL may read all payloads.
  const { rows } = await db.query<HydratedRow>(
    unnamed(sql`
     with shown as materialized (
       select ${LOGGED_COLUMNS}, s.deleted_at, ${stateOf('d')} as state
         from subscriptions s
        cross join lateral (
          select t.* from (
            select * from deliveries l
             where l.shop_id = ${shop} and l.subscription_id = s.id and l.is_test
             order by l.id desc limit ${raw(MAX_SEARCHED)}) t
           cross join lateral (
             select p.api_version from payloads p
              where p.shop_id = ${shop} and p.id = t.payload_id limit 1) v
           where v.api_version = ${version}
           order by t.id desc limit 1) d
        where s.shop_id = ${shop} and s.deleted_at is null
     ) ${hydrated({ shopId, withBodies: false, attempts: 'without headers' })}
      order by d.id desc`),
  );
  return rows.map(logged);
}
