import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { withClockAhead } from '../../test/kit/clock.ts';
import { createTestDatabase, type TestDatabase } from '../../test/kit/database.ts';
import { createShardHolder } from './shards.ts';

const SHARDS = 8;
/** Long, so that a slow machine keeps the shards. Milliseconds. */
const LEASE_MS = 60_000;

describe('shards, when the clock of the database is set', () => {
  let database: TestDatabase;
  beforeAll(async () => {
    database = await createTestDatabase('fraud');
  });
  afterAll(() => database.drop());

  const holder = (owner: string) =>
    createShardHolder({
      pool: database.pool,
      owner,
      name: 'relay',
      count: SHARDS,
      leaseMs: LEASE_MS,
    });

  /** As if the database's clock had been set: shifts every stored time. */
  const setClock = (step: string) =>
    database.pool.query('update leases set expires_at = expires_at - $1::interval', [step]);

  test('back: are taken from a process that died before', async () => {
    const [dead, heir] = [holder('of tomorrow'), holder('of today')];
    await dead.rebalance();
    await setClock('-1 hour');
    await heir.rebalance();
    expect(heir.owned()).toHaveLength(0);
    await withClockAhead(LEASE_MS / 2, () => heir.rebalance());
    expect(heir.owned()).toHaveLength(SHARDS);
    await heir.release();
  });

  test.each(['1 hour', '-1 hour'])('by %s: do not move', async (step) => {
    const both = [holder(`first, ${step}`), holder(`second, ${step}`)] as const;
    for (const one of [...both, ...both]) await one.rebalance();
    const tokens = () => both.map((one) => one.owned().map((shard) => one.tokenOf(shard)));
    const before = tokens();
    expect(before.map(({ length }) => length)).toEqual([SHARDS / 2, SHARDS / 2]);
    await setClock(step);
    for (const one of [...both, ...both]) await one.rebalance();
    expect(tokens()).toEqual(before);
    for (const one of both) await one.release();
  });

  test('forward: move to a process that joins, up to its share', async () => {
    const both = [holder('one'), holder('other')] as const;
    for (const one of [...both, ...both]) await one.rebalance();
    await setClock('1 hour');
    const third = holder('third');
    for (const one of [...both, third, ...both, third]) await one.rebalance();
    expect(third.owned().length).toBeGreaterThanOrEqual(Math.floor(SHARDS / 3));
    for (const one of [...both, third]) await one.release();
  });
});
