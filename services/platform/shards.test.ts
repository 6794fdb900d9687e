import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals';
import { createTestDatabase, type TestDatabase } from '../../test/support/database.ts';
import { createShardHolder, TEND_EVERY_MS } from './shards.ts';

const SHARDS = 8;
/** A machine that stands still must not lose them: where a lease ends, the test ends it. Milliseconds. */
const LEASE_MS = 60_000;

describe('shards', () => {
  let database: TestDatabase;
  beforeAll(async () => {
    database = await createTestDatabase('fraud');
  });
  afterAll(() => database.drop());

  const holder = (owner: string, isBusy?: (shard: number) => boolean) =>
    createShardHolder({
      pool: database.pool,
      owner,
      name: 'relay',
      count: SHARDS,
      leaseMs: LEASE_MS,
      ...(isBusy && { isBusy }),
    });

  const members = async (): Promise<string[]> => {
    const { rows } = await database.pool.query<{ owner: string }>(
      `select owner from leases where starts_with(name, 'relay/member/') order by owner`,
    );
    return rows.map((row) => row.owner);
  };

  test('are shared out evenly, and given back', async () => {
    const [first, second] = [randomUUID(), randomUUID()].map((owner) => holder(owner));
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
    for (const owner of [killed, late]) await holder(owner).tend();
    await database.pool.query(
      `update leases set expires_at = now() - interval '1 hour' where owner = $1`,
      [killed],
    );
    await database.pool.query(
      `update leases set expires_at = now() - interval '1 second' where owner = $1`,
      [late],
    );
    await holder(next).tend();
    expect(await members()).toEqual([late, next]);
  });

  test('that are busy are not begun anew, and change hands when they are done', async () => {
    let isBusy = true;
    const first = holder('busy', () => isBusy);
    const second = holder('newcomer');
    await database.pool.query('delete from leases');
    await first.tend();
    await second.tend();
    await first.tend();
    expect(first.held()).toHaveLength(SHARDS / 2);
    expect(second.held()).toEqual([]);
    await second.tend();
    expect(second.held()).toEqual([]);
    isBusy = false;
    await first.tend();
    await second.tend();
    expect(second.held()).toHaveLength(SHARDS / 2);
    await Promise.all([first.release(), second.release()]);
  });

  test('with nothing under way are given up first, and those that stay do not change', async () => {
    const busy = new Set<number>();
    const [first, second] = [holder('old', (shard) => busy.has(shard)), holder('young')];
    await first.tend();
    for (const shard of first.held().slice(SHARDS / 2)) busy.add(shard);
    await second.tend();
    await first.tend();
    await second.tend();
    expect(new Set(first.held())).toEqual(busy);
    expect(second.held()).toHaveLength(SHARDS / 2);
    const before = [first.held(), second.held()];
    for (const shard of second.held()) busy.add(shard);
    for (const one of [first, second, first, second]) await one.tend();
    expect([first.held(), second.held()]).toEqual(before);
    await Promise.all([first.release(), second.release()]);
  });

  test('that are all busy are done with one by one, each handed over when it is', async () => {
    const busy = new Set(Array.from({ length: SHARDS }, (_, shard) => shard));
    const [first, second] = [holder('full', (shard) => busy.has(shard)), holder('empty')];
    await first.tend();
    await second.tend();
    await first.tend();
    const [kept = -1] = first.held();
    busy.delete(kept);
    await first.tend();
    await second.tend();
    expect(second.held()).toEqual([kept]);
    expect(first.held()).toHaveLength(SHARDS / 2);
    await Promise.all([first.release(), second.release()]);
  });

  test('of one that leaves go to the others at once, those that are busy when they are done', async () => {
    const busy = new Set<number>();
    const [first, second] = [holder('leaving', (shard) => busy.has(shard)), holder('staying')];
    await first.tend();
    await second.tend();
    await first.tend();
    await second.tend();
    const [last = -1] = first.held();
    const token = first.tokenOf(last);
    busy.add(last);
    // However long this takes, it is the moment after the leaving.
    const clock = jest.spyOn(performance, 'now').mockReturnValue(performance.now());
    first.leave();
    expect([first.held(), first.tokenOf(last)]).toEqual([[], undefined]);
    const restMs = await first.tend().finally(() => clock.mockRestore());
    expect(restMs).toBeLessThan(100);
    expect(await members()).toEqual(['staying']);
    await second.tend();
    expect(second.held()).toHaveLength(SHARDS - 1);
    // What is under way may still be written in its name.
    await first.tend();
    const { rows } = await database.pool.query(
      `select token from leases where name = 'relay/shard/' || $1 and expires_at > now()`,
      [last],
    );
    expect(rows).toEqual([{ token }]);
    busy.delete(last);
    await first.tend();
    await second.tend();
    expect(second.held()).toHaveLength(SHARDS);
    expect(await members()).toEqual(['staying']);
    await Promise.all([first.release(), second.release()]);
  });

  test('are tended again when the lease of another ends, and seldom while all live', async () => {
    const [dead, heir] = [holder('dead'), holder('heir')];
    await dead.tend();
    await heir.tend();
    await dead.tend();
    await heir.tend();
    await dead.tend();
    expect(await heir.tend()).toBe(TEND_EVERY_MS);
    await database.pool.query(
      `update leases set expires_at = clock_timestamp() + interval '500 milliseconds' where owner = 'dead'`,
    );
    const restMs = await heir.tend();
    // A machine that stood still in between has seen the lease end already.
    expect(restMs < TEND_EVERY_MS || heir.held().length === SHARDS).toBe(true);
    await database.pool.query('select pg_sleep($1)', [restMs / 1000]);
    await heir.tend();
    expect(heir.held()).toHaveLength(SHARDS);
    await Promise.all([dead.release(), heir.release()]);
  });

  test('are tended often by who waits for them and by who gives them up, for a moment', async () => {
    let isBusy = true;
    const [first, second] = [holder('giver', () => isBusy), holder('taker')];
    expect(await first.tend()).toBe(TEND_EVERY_MS);
    expect(await second.tend()).toBeLessThan(100);
    expect(await first.tend()).toBeLessThan(100);
    isBusy = false;
    expect(await first.tend()).toBe(TEND_EVERY_MS);
    expect(await second.tend()).toBe(TEND_EVERY_MS);
    expect(second.held()).toHaveLength(SHARDS / 2);
    await Promise.all([first.release(), second.release()]);
  });

  test('that nobody took are kept over an outage longer than their lease', async () => {
    const before = holder('patient');
    await before.tend();
    const token = before.tokenOf(0);
    expect(token).toBeDefined();
    await database.pool.query(`update leases set expires_at = now() - interval '1 minute'`);
    await before.tend();
    expect(before.tokenOf(0)).toBe(token);
    await database.pool.query(`update leases set expires_at = now() - interval '1 minute'`);
    const other = holder('quick');
    await other.tend();
    expect(other.tokenOf(0)).toBeGreaterThan(token ?? 0n);
    await before.tend();
    expect(before.tokenOf(0)).toBeUndefined();
    await Promise.all([before.release(), other.release()]);
  });
});
