import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import pg from 'pg';
import { createTestDatabase, type TestDatabase } from '../../../test/kit/database.ts';
import { named, param, raw, rowsOf, sql, unnamed } from './sql.ts';

interface Item {
  readonly id: bigint;
  readonly name: string | null;
  readonly at?: Date;
}

const itemRows = rowsOf<Item>({
  id: ['bigint', ({ id }) => id],
  name: ['text', ({ name }) => name],
  at: ['timestamptz', ({ at }) => at],
});

describe('the text of a statement', () => {
  test('has a parameter for each value', () => {
    expect(unnamed(sql`select ${1}::int, ${"it's"}::text`)).toEqual({
      text: 'select $1::int, $2::text',
      values: [1, "it's"],
    });
  });

  test('has one parameter for a value that stands in several places', () => {
    const shop = param(7n);
    const inner = sql`select ${shop}::bigint, ${8}::int`;
    expect(unnamed(sql`with a as (${inner}) select ${shop}, ${9}::int`)).toEqual({
      text: 'with a as (select $1::bigint, $2::int) select $1, $3::int',
      values: [7n, 8, 9],
    });
  });

  test('of a name is that of its pieces, whatever was made before under the name', () => {
    const orderedBy = (column: string, least: number) =>
      named('ordered', sql`select ${least}::int order by ${raw(column)}`);
    const byA = { name: 'ordered', text: 'select $1::int order by a' };
    expect(orderedBy('a', 1)).toEqual({ ...byA, values: [1] });
    expect(orderedBy('a', 2)).toEqual({ ...byA, values: [2] });
    expect(orderedBy('b', 3)).toMatchObject({ text: 'select $1::int order by b', values: [3] });
  });

  test('has raw pieces as they are', () => {
    expect(unnamed(sql`select 1 limit ${raw(5)}`)).toEqual({
      text: 'select 1 limit 5',
      values: [],
    });
  });

  test('is the same for any number of rows', () => {
    const textOf = (items: readonly Item[]) =>
      unnamed(sql`select * from ${itemRows('i', items)}`).text;
    const none = textOf([]);
    expect(none).toBe(
      'select * from unnest($1::bigint[], $2::text[], $3::timestamptz[]) as i (id, name, at)',
    );
    expect(
      textOf([
        { id: 1n, name: 'a' },
        { id: 2n, name: null },
      ]),
    ).toBe(none);
  });
});

test('no statement counts ten values by hand', () => {
  const files = ['services', 'gateway'].flatMap((folder) =>
    readdirSync(folder, { recursive: true, encoding: 'utf8' }).map((path) => join(folder, path)),
  );
  const production = files.filter((path) => path.endsWith('.ts') && !path.endsWith('.test.ts'));
  expect(production.length).toBeGreaterThan(100);
  expect(production.filter((path) => /\$[1-9]\d/.test(readFileSync(path, 'utf8')))).toEqual([]);
});

describe('on PostgreSQL', () => {
  let db: TestDatabase;
  beforeAll(async () => {
    db = await createTestDatabase('carts');
  });
  afterAll(() => db.drop());

  const READ = 'read-items';
  const read = (client: pg.ClientBase, items: readonly Item[], least: bigint) =>
    client.query(
      named(
        READ,
        sql`select i.* from ${itemRows('i', items, 'n')} where id >= ${least} order by n desc`,
      ),
    );

  test('rows arrive with their types and in their order', async () => {
    const at = new Date('2026-11-23T10:00:00.001Z');
    const client = await db.pool.connect();
    try {
      const { rows } = await read(
        client,
        [
          { id: 1n, name: 'left out' },
          { id: 3n, name: '{"', at },
          { id: 2n, name: null },
        ],
        2n,
      );
      expect(rows).toEqual([
        { id: 2n, name: null, at: null, n: 3n },
        { id: 3n, name: '{"', at, n: 2n },
      ]);
    } finally {
      client.release();
    }
  });

  test('a named statement is prepared once', async () => {
    const client = new pg.Client({ connectionString: db.url });
    await client.connect();
    try {
      for (const items of [[], [{ id: 1n, name: 'a' }]]) await read(client, items, 0n);
      const { rows } = await client.query(
        'select (generic_plans + custom_plans)::int as runs from pg_prepared_statements where name = $1',
        [READ],
      );
      expect(rows).toEqual([{ runs: 2 }]);
    } finally {
      await client.end();
    }
  });
});
