import { beforeAll, describe, expect, test } from '@jest/globals';
import { queryMigrated } from '../kit/migrated-columns.ts';

/** Every id column, with its checks, its sequence, and whether it references another row. */
const COLUMNS = `
  select n.nspname || '.' || c.relname || '.' || a.attname as column,
         coalesce((select seqmax from pg_sequence
                    where seqrelid = pg_get_serial_sequence(c.oid::regclass::text, a.attname)::regclass), 0)::text as "lastValue",
         coalesce((select string_agg(pg_get_constraintdef(k.oid), ' ') from pg_constraint k
                    where k.conrelid = c.oid and a.attnum = any(k.conkey) and k.contype = 'c'), '') as checks,
         exists (select from pg_constraint k
                  where k.conrelid = c.oid and a.attnum = any(k.conkey) and k.contype = 'f') as "isForeign"
    from pg_attribute a join pg_class c on c.oid = a.attrelid join pg_namespace n on n.oid = c.relnamespace
   where n.nspname !~ '^pg_' and n.nspname <> 'information_schema' and c.relkind in ('r', 'p')
     and not c.relispartition and not a.attisdropped and a.atttypid = 'bigint'::regtype
     and a.attname ~ '(^|_)id$'`;

/** The platform's records of handled events, whose shop was checked before. */
const NOTES = /\.consumed_events\.shop_id$/;
/** Ids of our own orders and returns. The ids of a provider start above them. */
const SHORT = ['returns.orders.id', 'returns.returns.id'];

interface Column {
  readonly column: string;
  readonly lastValue: string;
  readonly checks: string;
  readonly isForeign: boolean;
}

let columns: readonly Column[];

beforeAll(async () => {
  columns = await queryMigrated<Column>(COLUMNS);
});

describe('the database', () => {
  test('no column accepts an id above 2^53 - 1, which a JSON number could not represent', () => {
    const unbounded = columns.filter(({ column, lastValue, checks, isForeign }) => {
      const isNumbered = lastValue !== '0' && BigInt(lastValue) <= Number.MAX_SAFE_INTEGER;
      const isChecked = checks.includes(String(Number.MAX_SAFE_INTEGER));
      return !isNumbered && !isChecked && !isForeign && !NOTES.test(column);
    });
    expect(unbounded.map(({ column }) => column)).toEqual([]);
    expect(columns.length).toBeGreaterThan(50);
  });

  test('ids of our own orders and returns are below 10^9', () => {
    const short = columns.filter(({ column }) => SHORT.includes(column));
    expect(short.map(({ lastValue }) => lastValue)).toEqual(SHORT.map(() => '999999999'));
  });
});
