import { packedText } from '../../platform/packed-texts.ts';

/** How a column comes; those that may be long come packed. */
type ColumnType = 'text' | 'text[]' | 'timestamptz' | 'packed text';

/** Where one kind of inspection is kept, and what the timeline says of it. */
export interface InspectionTable {
  readonly table: 'line_dispositions' | 'line_conditions';
  /** The column with the dispositions service's id. */
  readonly idColumn: string;
  /** What the details show of it, with types: all other columns but the keys. */
  readonly columns: Readonly<Record<string, ColumnType>>;
  /** The kind of its timeline entries, and columns whose former values they keep. */
  readonly entry: string;
  readonly former: readonly string[];
}

/**
 * One statement that stores those inspections that are newer than what is there, tells the timelines of
 * them with what was there before, and gives returns whose details differ now their next revision.
 *
 * $1 is the shop, $2 the inspections as JSON, each of another line, $3 the ids of their lines, $4 their
 * packed texts. The returns are locked. Answers the ids of those that changed.
 */
export function storeStatement(o: InspectionTable): string {
  const names = Object.keys(o.columns);
  const listed = names.join(', ');
  const of = (alias: string) => names.map((name) => `${alias}.${name}`).join(', ');
  const isPacked = (name: string) => o.columns[name] === 'packed text';
  const types = names.map((name) => `${name} ${isPacked(name) ? 'integer[]' : o.columns[name]}`);
  const unpacked = names.map((name) =>
    isPacked(name) ? `${packedText(name, '$4::bytea')} as ${name}` : name,
  );
  // Lines are looked up by ids: how many rows come out of JSON is unknown, and whole tables would be
  // read to meet them.
  return `
with given as materialized (
  select line_item_id, inspection_id, ${unpacked.join(', ')}, text, facts, actor_kind, actor_id, actor_name
    from jsonb_to_recordset($2::jsonb) as g (line_item_id bigint, inspection_id bigint,
    ${types.join(', ')}, text text, facts jsonb, actor_kind text, actor_id text, actor_name text)
), former as materialized (
  select k.* from ${o.table} k where k.shop_id = $1 and k.line_item_id = any($3::bigint[])
), applied as (
  insert into ${o.table} as k (shop_id, line_item_id, ${o.idColumn}, ${listed})
  select $1, line_item_id, inspection_id, ${listed} from given order by line_item_id
  on conflict (shop_id, line_item_id) do update
     set ${[o.idColumn, ...names].map((name) => `${name} = excluded.${name}`).join(', ')}
   where k.${o.idColumn} < excluded.${o.idColumn}
  returning k.line_item_id
), met as materialized (
  select l.return_id, l.removed_at, g.*, ${former(o.former)} as former_facts,
         f.line_item_id is null or (${of('g')}) is distinct from (${of('f')}) as differs
    from applied a
    join given g on g.line_item_id = a.line_item_id
    join return_lines l
      on l.shop_id = $1 and l.id = a.line_item_id and l.id = any($3::bigint[])
    left join former f on f.line_item_id = a.line_item_id
), told as (
  insert into timeline (shop_id, return_id, kind, text, author, facts, actor_kind, actor_id, actor_name)
  select $1, return_id, '${o.entry}', text, actor_name, facts || former_facts, actor_kind, actor_id, actor_name
    from met order by line_item_id
)
update returns
   set revision = revision + 1, updated_at = greatest(updated_at, clock_timestamp())
 where shop_id = $1 and id = any(array(select return_id from met where differs and removed_at is null))
returning id`;
}

/** Facts about what was there before, as far as it said something. */
function former(columns: readonly string[]): string {
  const facts = columns.map((name) => {
    const value =
      name === 'inspected_at'
        ? `to_char(f.inspected_at at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`
        : `nullif(f.${name}, '')`;
    return `'former_${name}', ${value}`;
  });
  return `jsonb_strip_nulls(jsonb_build_object(${facts.join(', ')}))`;
}
