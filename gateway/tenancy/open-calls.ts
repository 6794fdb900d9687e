import type { Queryable } from '../../services/platform/postgres/postgres.ts';
import { named, rowsOf, sql } from '../../services/platform/postgres/sql.ts';
import { type AuditEntry, entryColumns } from './audit.ts';

/** A call that may change something, from before its work until its outcome is in the audit log. */
export interface OpenCall {
  /** A UUID. */
  readonly call: string;
  /** The entry of the call: with its request, or with its outcome. */
  readonly entry: AuditEntry;
}

const callRows = rowsOf<OpenCall>({
  call: ['uuid', ({ call }) => call],
  ...entryColumns(({ entry }: OpenCall) => entry),
});

/** Records calls before their work, with one statement. */
export async function openCalls(db: Queryable, calls: readonly OpenCall[]): Promise<void> {
  await db.query(
    named(
      'open-calls',
      sql`
     insert into open_calls (call, shop_id, actor_kind, actor_id, actor_name, source, request_id, action, subject, detail)
     select call, shop_id, actor_kind, actor_id, actor_name, source, request_id, action, subject, detail::jsonb
       from ${callRows('opened', calls)}`,
    ),
  );
}

/**
 * How much the calls of a shop may add to its log on a day (UTC) as entries of their own. Beyond that, calls of the REST
 * API that differ only in time and object become one entry for ten minutes. What people and assistants do always has
 * entries of its own. Bytes.
 */
export const DAY_BYTES_MAX = 64 * 1024 * 1024;
/** About what an entry takes beside its detail and its subject, with its share of the indexes. Bytes. */
const ENTRY_BYTES = 500;

/**
 * Moves calls with their outcomes to the audit log, with one statement. Safe to run twice: a call that is not open any
 * more is left out, because its entry was written: by the first run, or as `unknown` during an outage of ten minutes. A
 * shop beyond `dayBytes` gets its entries later, from {@link closeOpenCalls}.
 */
export async function endCalls(
  db: Queryable,
  calls: readonly OpenCall[],
  dayBytes: number,
): Promise<void> {
  // The days are locked in the order of the shops, so that two replicas cannot deadlock.
  await db.query(
    named(
      'end-calls',
      sql`
     with ended as (select * from ${callRows('one', calls, 'nth')}),
          used as (
            insert into audit_days (shop_id, day, bytes)
            select shop_id, (now() at time zone 'utc')::date,
                   sum(octet_length(detail) + octet_length(subject) + ${ENTRY_BYTES}::integer)
              from ended e where exists (select from open_calls o where o.call = e.call)
             group by shop_id order by shop_id
            on conflict (shop_id, day) do update set bytes = audit_days.bytes + excluded.bytes
            returning shop_id, bytes),
          decided as (
            select call, subject, detail,
                   u.bytes > ${dayBytes}::bigint and starts_with(action, 'rest.') as is_folded
              from ended e join used u on u.shop_id = e.shop_id),
          kept as (
            update open_calls o set ended = true, subject = d.subject, detail = d.detail::jsonb
              from decided d where o.call = d.call and d.is_folded),
          closed as (
            delete from open_calls o using decided d where o.call = d.call and not d.is_folded
            returning o.call, o.at)
     insert into audit_log (shop_id, at, actor_kind, actor_id, actor_name, source, request_id, action, subject, detail)
     select shop_id, at, actor_kind, actor_id, actor_name, source, request_id, action, subject, detail::jsonb
       from ended join closed using (call)
      order by nth`,
    ),
  );
}

/**
 * Moves open calls that are older than any call may take to the audit log: each one whose process died, as `unknown`,
 * and one entry for equal calls of a shop beyond its day. Oldest first.
 *
 * @param most maximum number of calls.
 * @returns the number of calls that were moved.
 */
export async function closeOpenCalls(db: Queryable, most: number): Promise<number> {
  const { rows } = await db.query<{ moved: bigint }>(
    `with closed as (
       delete from open_calls where call in (
         select call from open_calls where at < now() - interval '10 minutes'
          order by at limit $1 for update skip locked)
       returning *, coalesce(case when ended then detail->>'phase' end, 'unknown') as phase),
     logged as (
       insert into audit_log (shop_id, at, actor_kind, actor_id, actor_name, source, request_id, action, subject, detail)
       select shop_id, min(at), actor_kind, actor_id, min(actor_name),
              case when count(distinct source) = 1 then min(source) end,
              case when count(*) = 1 then min(request_id) end,
              action,
              case when count(distinct subject) = 1 then min(subject) else '' end,
              case when count(*) = 1 then (array_agg(detail))[1] || jsonb_build_object('phase', phase)
                   else jsonb_build_object('call', min(call::text), 'phase', phase, 'alike', count(*),
                          'changes', jsonb_build_array(jsonb_build_object('field', 'objects',
                            'to', left(string_agg(distinct subject, ' '), 300)))) end
         from closed
        group by shop_id, actor_kind, actor_id, action, phase, case when ended then null else call end
        order by min(at))
     select count(*) as moved from closed`,
    [most],
  );
  return Number(rows[0]?.moved);
}

/** Deletes the counts of past days. */
export async function purgeAuditDays(db: Queryable, most: number): Promise<boolean> {
  const { rowCount } = await db.query(
    `delete from audit_days where (shop_id, day) in (
       select shop_id, day from audit_days where day < (now() at time zone 'utc')::date - 1
        order by day limit $1 for update skip locked)`,
    [most],
  );
  return rowCount === most;
}
