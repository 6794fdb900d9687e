import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { createTestDatabase, type TestDatabase } from '../../../test/support/database.ts';
import { SHARDS } from './append.ts';
import { createShardHolder } from './shards.ts';

describe('shards of the outbox', () => {
  let database: TestDatabase;
  beforeAll(async () => {
    database = await createTestDatabase('fraud');
  });
  afterAll(() => database.drop());

  const members = async (): Promise<string[]> => {
    const { rows } = await database.pool.query<{ owner: string }>(
      `select owner from leases where starts_with(name, 'relay/member/') order by owner`,
    );
    return rows.map((row) => row.owner);
  };

  test('are shared out evenly, and given back', async () => {
    const [first, second] = [randomUUID(), randomUUID()].map((owner) =>
      createShardHolder(database.pool, owner),
    );
    if (!first || !second) throw new Error('there are two');
    await first.tend();
    expect(first.held()).toHaveLength(SHARDS);
    await second.tend();
    await first.tend();
    await second.tend();
    expect([first.held().length, second.held().length]).toEqual([SHARDS / 2, SHARDS / 2]);
    await second.release();
    await first.tend();
    expect(first.held()).toHaveLength(SHARDS);
    await first.release();
    expect(await members()).toEqual([]);
  });

  test('processes that were killed leave no row for ever', async () => {
    const [killed, late, next] = ['killed', 'late', 'next'];
    for (const owner of [killed, late]) await createShardHolder(database.pool, owner).tend();
    await database.pool.query(
      `update leases set expires_at = now() - interval '1 hour' where owner = $1`,
      [killed],
    );
    await database.pool.query(
      `update leases set expires_at = now() - interval '1 second' where owner = $1`,
      [late],
    );
    await createShardHolder(database.pool, next).tend();
    expect(await members()).toEqual([late, next]);
  });
});
