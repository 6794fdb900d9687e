import type { Queryable } from '../../services/platform/postgres/postgres.ts';
import { type Sql, sql, unnamed } from '../../services/platform/postgres/sql.ts';
import { type Author, kindOf } from './audit.ts';

/** Why a session of the portal ended, as the audit log has it. */
export type SessionEnd =
  | 'signed_out'
  | 'signed_out_everywhere'
  | 'signed_out_at_provider'
  | 'ended_by_user'
  | 'new_sign_in'
  | 'too_many'
  | 'expired'
  | 'member_removed'
  | 'account_unlinked'
  | 'access_ended';

/**
 * Ends sessions of the portal, each with an entry in the audit log of its shop, in one statement. Idempotent.
 *
 * @param which a condition on `portal_sessions`.
 * @returns how many ended.
 */
export async function endSessions(
  db: Queryable,
  which: Sql,
  { why, by }: { readonly why: SessionEnd; readonly by: Author },
): Promise<number> {
  const { id, name = '' } = by.actor;
  const { rowCount } = await db.query(
    unnamed(sql`
with ended as (delete from portal_sessions where ${which} returning id, shop_id, user_id, device)
insert into audit_log (shop_id, actor_kind, actor_id, actor_name, source, request_id, action, subject, detail)
select shop_id, ${kindOf(by)}::text, ${id}::text, ${name}::text,
       nullif(${by.source ?? ''}::text, ''), ${by.requestId ?? null}::text, 'session.ended', id::text,
       jsonb_build_object('user_id', user_id::text, 'device', device, 'why', ${why}::text)
  from ended`),
  );
  return rowCount ?? 0;
}
