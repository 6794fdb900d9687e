import { packedText } from '../../platform/packed-texts.ts';
import { NEXT_REVISION } from '../store/next-revision.ts';

/** The type of a column in the input. Texts that may be long are sent as packed texts. */
type ColumnType = 'text' | 'text[]' | 'timestamptz' | 'packed text';

/** The table for one kind of inspection, and its entries in the timeline. */
export interface InspectionTable {
  readonly table: 'line_dispositions' | 'line_conditions';
  /** The column with the id that the dispositions service gave. */
  readonly idColumn: string;
  /** The columns that are part of the details, with their types. These are all columns except the keys. */
  readonly columns: Readonly<Record<string, ColumnType>>;
  /** The kind of its timeline entries, and the columns whose previous values an entry has. */
  readonly entry: string;
  readonly previous: readonly string[];
}

/**
 * Returns a statement that stores those inspections that are newer than the stored ones. It adds timeline entries with
 * the previous values. It gives each return whose details changed its next revision.
 *
 * $1 is the shop, $2 the inspections as JSON, at most one for each line item, $3 the ids of their line items, $4 their
 * packed texts. The caller must have locked the returns. The statement returns the ids of the changed returns.
 */
export function storeStatement(o: InspectionTable): string {
  const names = Object.keys(o.columns);
  const listed = names.join(', ');
  const columnsOf = (alias: string) => names.map((name) => `${alias}.${name}`).join(', ');
  const isPacked = (name: string) => o.columns[name] === 'packed text';
  const types = names.map((name) => `${name} ${isPacked(name) ? 'integer[]' : o.columns[name]}`);
  const unpacked = names.map((name) =>
    isPacked(name) ? `${packedText(name, '$4::bytea')} as ${name}` : name,
  );
  // Lines are found by ids in an array, because PostgreSQL cannot estimate the number of rows in JSON, and would read
  // whole tables for the join.
  return `
with input as materialized (
  select line_item_id, inspection_id, ${unpacked.join(', ')}, text, facts, actor_kind, actor_id, actor_name, actor_through
    from jsonb_to_recordset($2::jsonb) as g (line_item_id bigint, inspection_id bigint,
    ${types.join(', ')}, text text, facts jsonb, actor_kind text, actor_id text, actor_name text, actor_through text)
), previous as materialized (
  select k.* from ${o.table} k where k.shop_id = $1 and k.line_item_id = any($3::bigint[])
), applied as (
  insert into ${o.table} as k (shop_id, line_item_id, ${o.idColumn}, ${listed})
  select $1, line_item_id, inspection_id, ${listed} from input order by line_item_id
  on conflict (shop_id, line_item_id) do update
     set ${[o.idColumn, ...names].map((name) => `${name} = excluded.${name}`).join(', ')}
   where k.${o.idColumn} < excluded.${o.idColumn}
  returning k.line_item_id
), stored as materialized (
  select l.return_id, l.removed_at, g.*, ${previousFacts(o.previous)} as previous_facts,
         f.line_item_id is null or (${columnsOf('g')}) is distinct from (${columnsOf('f')}) as differs
    from applied a
    join input g on g.line_item_id = a.line_item_id
    join return_lines l
      on l.shop_id = $1 and l.id = a.line_item_id and l.id = any($3::bigint[])
    left join previous f on f.line_item_id = a.line_item_id
), noted as (
  insert into timeline (shop_id, return_id, kind, text, author, facts, actor_kind, actor_id, actor_name, actor_through)
  select $1, return_id, '${o.entry}', text, actor_name, facts || previous_facts, actor_kind, actor_id, actor_name,
    actor_through
    from stored order by line_item_id
)
update returns
   set ${NEXT_REVISION}
 where shop_id = $1 and id = any(array(select return_id from stored where differs and removed_at is null))
returning id`;
}

/** SQL for the previous values as facts. Empty values are left out. */
function previousFacts(columns: readonly string[]): string {
  const facts = columns.map((name) => {
    const value =
      name === 'inspected_at'
        ? `to_char(f.inspected_at at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`
        : `nullif(f.${name}, '')`;
    return `'former_${name}', ${value}`;
  });
  return `jsonb_strip_nulls(jsonb_build_object(${facts.join(', ')}))`;
}
