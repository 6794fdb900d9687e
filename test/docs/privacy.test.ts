import { readFileSync } from 'node:fs';
import { beforeAll, describe, expect, test } from '@jest/globals';
import { queryMigrated } from '../kit/migrated-columns.ts';

const PAGE = readFileSync(new URL('../../docs/privacy.md', import.meta.url), 'utf8');

/** Parts of a column's name that suggest personal data or free text. */
const SUSPICIOUS =
  /email|name|address|phone|customer|author|actor|note|comment|description|text|facts|detail|body|content|snapshot|value|headers|excerpt|reasons?$|processor/;

/** Columns of types that can contain such data. Partitions have the columns of their table. */
const COLUMNS = `
  select c.table_schema as schema, c.table_name as table, c.column_name as column
    from information_schema.columns c
   where c.table_schema not in ('pg_catalog', 'information_schema')
     and c.data_type in ('text', 'character varying', 'json', 'jsonb', 'bytea', 'ARRAY')
     and not (select relispartition from pg_class
               where oid = format('%I.%I', c.table_schema, c.table_name)::regclass)`;

/** Columns with words of our own instead of a caller's text. */
const FIXED = /_kind$|^category_name$|^inactive_reason$/;

interface Column {
  readonly schema: string;
  readonly table: string;
  readonly column: string;
}

let columns: readonly Column[];

beforeAll(async () => {
  columns = await queryMigrated<Column>(COLUMNS);
});

/** The columns before the colon of the page's entries. */
const listed = [...PAGE.matchAll(/^- (`[a-z0-9_.*]+`(?:,\s+`[a-z0-9_.*]+`)*): /gm)].flatMap(
  ([, names = '']) => [...names.matchAll(/[a-z0-9_.*]+/g)].map(([name]) => name),
);

const spellings = ({ schema, table, column }: Column) => [
  `${schema}.${table}.${column}`,
  `*.${table}.${column}`,
];

describe('docs/privacy.md', () => {
  test('lists every column whose name suggests personal data', () => {
    const missing = columns
      .filter(({ column }) => SUSPICIOUS.test(column) && !FIXED.test(column))
      .filter((column) => !spellings(column).some((name) => listed.includes(name)))
      .map((column) => spellings(column)[0]);
    expect(missing).toEqual([]);
  });

  test('lists only existing columns, and each once', () => {
    const existing = new Set(columns.flatMap(spellings));
    expect(listed.filter((name) => !existing.has(name))).toEqual([]);
    expect(new Set(listed).size).toBe(listed.length);
  });
});
