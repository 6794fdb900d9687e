import type { Queryable } from '../../services/platform/postgres.ts';
import { sql, unnamed } from '../../services/platform/sql.ts';
import { ENTRY_COLUMNS, type LoggedEntry } from './audit-list.ts';

/**
 * Finds the calls of assistants that have made these changes, with one statement. An entry that was written together
 * with its change does not say its way, but the entry of the call has the same request and the same subject. Filters
 * and pages may leave out the entry of the call, so it is read by itself. Both are written within a minute, so a subject
 * of many calls costs no more.
 *
 * @returns the entry of the call, by the id of the entry of the change.
 */
export async function assistantCalls(
  db: Queryable,
  shopId: bigint,
  entries: readonly LoggedEntry[],
): Promise<ReadonlyMap<bigint, LoggedEntry>> {
  const changes = entries.filter(({ requestId, detail }) => requestId !== null && !detail.call);
  if (changes.length === 0) return new Map();
  const { rows } = await db.query<LoggedEntry & { readonly changeId: bigint }>(
    unnamed(sql`
      select change.id as "changeId", call.*
        from audit_log change
        join lateral (
          select ${ENTRY_COLUMNS} from audit_log
           where shop_id = change.shop_id and subject = change.subject
             and at between change.at - interval '1 minute' and change.at + interval '1 minute'
             and request_id = change.request_id and starts_with(action, 'mcp.')
           limit 1) call on true
       where change.shop_id = ${shopId} and change.id = any(${changes.map(({ id }) => id)}::bigint[])`),
  );
  return new Map(rows.map(({ changeId, ...call }) => [changeId, call]));
}
