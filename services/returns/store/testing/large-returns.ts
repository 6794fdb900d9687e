import { jest } from '@jest/globals';
import pg from 'pg';
import type { Return } from '../../../../proto/gen/rms/returns/v1/return_pb.ts';
import { StatementGroup } from '../../../platform/postgres/statement-group.ts';

// What the tests of large returns share.

/** Adds so many uploads to a line that two such returns do not fit into one response. */
export async function makeLarge(pool: pg.Pool, of: Return): Promise<void> {
  await pool.query(
    `insert into uploads (shop_id, return_id, line_item_id, kind, url)
     select $1, $2, $3, 'image', repeat('x', 2000) from generate_series(1, 2500)`,
    [of.shopId, of.id, of.lineItems[0]?.lineItemId],
  );
}

/** A statement and its result. */
export interface Ran {
  readonly text: string;
  readonly rows: readonly object[];
}

/** The statements of transactions while `work` runs, with their results. */
export async function statementsDuring(work: () => Promise<unknown>): Promise<Ran[]> {
  const spy = jest.spyOn(pg.Client.prototype, 'query');
  try {
    await work();
    const sent = spy.mock.calls.flatMap(([query]: unknown[], n) =>
      query instanceof StatementGroup
        ? query.members.map((one) => ({ text: one.query.text, result: one.result }))
        : [{ text: textOf(query), result: spy.mock.results[n]?.value as unknown }],
    );
    const results = await Promise.allSettled(sent.map(({ result }) => result));
    return results.map((result, n) => ({
      text: sent[n]?.text ?? '',
      rows: result.status === 'fulfilled' ? rowsOf(result.value) : [],
    }));
  } finally {
    spy.mockRestore();
  }
}

/** How many whole returns each statement read, of those that read any. */
export function readAtOnce(statements: readonly Ran[]): number[] {
  // A row of nulls says that a return is large.
  const whole = statements.map(
    ({ rows }) => rows.filter((row) => Reflect.get(row, 'provider_orders')).length,
  );
  return whole.filter((count) => count > 0);
}

function textOf(query: unknown): string {
  if (typeof query === 'string') return query;
  return query instanceof Object && 'text' in query ? `${query.text}` : '';
}

function rowsOf(result: unknown): object[] {
  return result instanceof pg.Result ? result.rows : [];
}
