import type pg from 'pg';

/** Tables of the baseline. Each is like a table that the services write to for the call. */
const TABLES = {
  bench_assessments: 'dispositions.inspections',
  bench_lines: 'dispositions.inspected_lines',
  bench_dispositions: 'returns.line_dispositions',
  bench_returns: 'returns.returns',
  bench_timeline: 'returns.timeline',
  bench_events: 'returns.events',
};

/** Creates the tables of the baseline. */
export async function createBaselineTables(admin: pg.Client): Promise<void> {
  for (const [name, model] of Object.entries(TABLES)) {
    await admin.query(
      `create table if not exists dispositions.${name} (like ${model} including all)`,
    );
    await admin.query(`grant select, insert, update on dispositions.${name} to rms_dispositions`);
  }
  await admin.query(
    'insert into dispositions.bench_returns overriding system value select * from returns.returns on conflict do nothing',
  );
  await admin.query('create sequence if not exists dispositions.bench_positions');
  await admin.query('grant usage on sequence dispositions.bench_positions to rms_dispositions');
}

const ITEMS = `
json_to_recordset($2::json)
  as i (line_item_id bigint, disposition_outcome text, return_processor text, note text)`;

const ASSESSED = `
insert into bench_assessments (shop_id, kind, line_item_id, outcome, return_processor, note, inspected_at,
  time_defaulted, images, actor_kind, actor_id, actor_name)
select $1, 'assessment', i.line_item_id, i.disposition_outcome, i.return_processor, i.note, now(),
  true, '{}', 'system', 'baseline', 'baseline'
from ${ITEMS}
returning id, line_item_id, outcome, return_processor, note, inspected_at`;

const RESULT = `select id::text, line_item_id::text, outcome, return_processor, note, inspected_at from assessed`;

/** Stores only the content of the call. $1 is the shop, $2 the items. */
export const BARE_BASELINE = `with assessed as (${ASSESSED}) ${RESULT}`;

/**
 * Stores every row that the services store for the call: the assessments, the newest assessment of each line item, the
 * copy in returns, the next revision of the return ($4), the timeline, and both events, one with its snapshot ($3,
 * bytes). Leaves out the handover rows, which the services delete before they respond.
 */
export const SAME_ROWS_BASELINE = `
with assessed as (${ASSESSED}), lines as (
  insert into bench_lines (shop_id, kind, line_item_id, inspection_id)
  select $1, 'assessment', line_item_id, id from assessed order by line_item_id
  on conflict (shop_id, kind, line_item_id) do update set inspection_id = excluded.inspection_id
), copied as (
  insert into bench_dispositions (shop_id, line_item_id, assessment_id, outcome, return_processor, note, inspected_at)
  select $1, line_item_id, id, outcome, return_processor, note, inspected_at from assessed order by line_item_id
  on conflict (shop_id, line_item_id) do update set assessment_id = excluded.assessment_id,
    outcome = excluded.outcome, return_processor = excluded.return_processor, note = excluded.note,
    inspected_at = excluded.inspected_at
), changed as (
  update bench_returns set revision = revision + 1, updated_at = clock_timestamp()
   where shop_id = $1 and id = $4
), timeline_entries as (
  insert into bench_timeline (shop_id, return_id, kind, facts, actor_kind, actor_id)
  select $1, $4, 'line.assessed', json_build_object('line_item_id', line_item_id, 'outcome', outcome), 'system', 'baseline'
  from assessed
), positions as materialized (
  select nextval('bench_positions') as position, case n when 1 then $3::bytea else substring($3::bytea for 300) end as value
    from generate_series(1, 2) as n
), stored as (
  insert into bench_events (shop_id, day, position, event_id, trigger, key, traceparent, occurred_at, value, shard, written_by)
  select $1, (now() at time zone 'utc')::date, position, gen_random_uuid(), 'return.updated', 'baseline', '', now(), value,
         0, pg_current_xact_id()
  from positions
)
${RESULT}`;
