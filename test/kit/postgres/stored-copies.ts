import type pg from 'pg';

/** Finds a text in every table of a schema: in text, JSON and bytes. Returns the table's name for each row found. */
export async function copiesOf(pool: pg.Pool, text: string): Promise<string[]> {
  const { rows } = await pool.query<{ name: string }>(
    `select c.relname as name from pg_class c
      where c.relnamespace = current_schema()::regnamespace and c.relkind in ('r', 'p')
        and not c.relispartition order by 1`,
  );
  const found: string[] = [];
  for (const { name } of rows) {
    const { rowCount } = await pool.query(
      `select from ${name} t
        where strpos(t::text, $1) > 0 or strpos(t::text, encode(convert_to($1, 'UTF8'), 'hex')) > 0`,
      [text],
    );
    found.push(...Array.from({ length: rowCount ?? 0 }, () => name));
  }
  return found;
}
