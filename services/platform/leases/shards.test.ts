import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals';
import { withClockAhead } from '../../../test/kit/clock.ts';
import { createTestDatabase, type TestDatabase } from '../../../test/kit/database.ts';
import { lockWaits } from '../../../test/kit/postgres/lock-waits.ts';
import { until } from '../../../test/kit/until.ts';
import { createShardHolder, REBALANCE_ALONE_MS, REBALANCE_EVERY_MS } from './shards.ts';

const SHARDS = 8;

/** Long, so that a slow machine keeps the shards. Tests end leases themselves. Milliseconds. */
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

  /** As if the process had not renewed its lease in time. */
  const endProcess = (owner: string) =>
    database.pool.query(
      `update leases set expires_at = now() - interval '1 second' where name = 'relay/process/' || $1`,
      [owner],
    );

  const waitForBlocked = () => until(async () => (await lockWaits(database.pool)) > 0);

  test('are divided evenly, and released', async () => {
    const [first, second] = [randomUUID(), randomUUID()].map((owner) => holder(owner));
    if (!first || !second) throw new Error('there are two');
    await first.rebalance();
    expect(first.owned()).toHaveLength(SHARDS);
    await second.rebalance();
    await first.rebalance();
    await second.rebalance();
    expect([first.owned().length, second.owned().length]).toEqual([SHARDS / 2, SHARDS / 2]);
    await second.release();
    await first.rebalance();
    expect(first.owned()).toHaveLength(SHARDS);
    await first.release();
    expect(await members()).toEqual([]);
  });

  test('killed processes leave no rows behind', async () => {
    const [killed, late, next] = ['killed', 'late', 'next'];
    for (const owner of [killed, late]) await holder(owner).rebalance();
    await endProcess(killed);
    await holder(next).rebalance();
    expect(await members()).toEqual([late, next]);
  });

  test('get no new work while they are busy with old work, and move when it is done', async () => {
    let isBusy = true;
    const first = holder('busy', () => isBusy);
    const second = holder('newcomer');
    await database.pool.query('delete from leases');
    await first.rebalance();
    await second.rebalance();
    await first.rebalance();
    expect(first.owned()).toHaveLength(SHARDS / 2);
    expect(second.owned()).toEqual([]);
    await second.rebalance();
    expect(second.owned()).toEqual([]);
    isBusy = false;
    await first.rebalance();
    await second.rebalance();
    expect(second.owned()).toHaveLength(SHARDS / 2);
    await Promise.all([first.release(), second.release()]);
  });

  test('without work in flight are handed over first, and busy shards do not move', async () => {
    const busy = new Set<number>();
    const [first, second] = [holder('old', (shard) => busy.has(shard)), holder('young')];
    await first.rebalance();
    for (const shard of first.owned().slice(SHARDS / 2)) busy.add(shard);
    await second.rebalance();
    await first.rebalance();
    await second.rebalance();
    expect(new Set(first.owned())).toEqual(busy);
    expect(second.owned()).toHaveLength(SHARDS / 2);
    const before = [first.owned(), second.owned()];
    for (const shard of second.owned()) busy.add(shard);
    for (const one of [first, second, first, second]) await one.rebalance();
    expect([first.owned(), second.owned()]).toEqual(before);
    await Promise.all([first.release(), second.release()]);
  });

  test('that are all busy are handed over one by one when their work is done', async () => {
    const busy = new Set(Array.from({ length: SHARDS }, (_, shard) => shard));
    const [first, second] = [holder('full', (shard) => busy.has(shard)), holder('empty')];
    await first.rebalance();
    await second.rebalance();
    await first.rebalance();
    const [kept = -1] = first.owned();
    busy.delete(kept);
    await first.rebalance();
    await second.rebalance();
    expect(second.owned()).toEqual([kept]);
    expect(first.owned()).toHaveLength(SHARDS / 2);
    await Promise.all([first.release(), second.release()]);
  });

  test('of a process that stops move immediately, busy ones when their work is done', async () => {
    const busy = new Set<number>();
    const [first, second] = [holder('leaving', (shard) => busy.has(shard)), holder('staying')];
    await first.rebalance();
    await second.rebalance();
    await first.rebalance();
    await second.rebalance();
    const [last = -1] = first.owned();
    const token = first.tokenOf(last);
    busy.add(last);
    // The same moment as the leaving, however long this takes.
    const clock = jest.spyOn(performance, 'now').mockReturnValue(performance.now());
    first.drain();
    expect([first.owned(), first.tokenOf(last)]).toEqual([[], undefined]);
    const restMs = await first.rebalance().finally(() => clock.mockRestore());
    expect(restMs).toBeLessThan(100);
    expect(await members()).toEqual(['staying']);
    await second.rebalance();
    expect(second.owned()).toHaveLength(SHARDS - 1);
    // Work in flight may still be recorded with its token.
    await first.rebalance();
    const { rows } = await database.pool.query(
      `select token from leases where name = 'relay/shard/' || $1 and expires_at > now()`,
      [last],
    );
    expect(rows).toEqual([{ token }]);
    busy.delete(last);
    await first.rebalance();
    await second.rebalance();
    expect(second.owned()).toHaveLength(SHARDS);
    expect(await members()).toEqual(['staying']);
    await Promise.all([first.release(), second.release()]);
  });

  test('are rebalanced when the lease of another process ends, and seldom while all are alive', async () => {
    const [dead, heir] = [holder('dead'), holder('heir')];
    await dead.rebalance();
    await heir.rebalance();
    await dead.rebalance();
    await heir.rebalance();
    await dead.rebalance();
    expect(await heir.rebalance()).toBe(REBALANCE_EVERY_MS);
    await database.pool.query(
      `update leases set expires_at = clock_timestamp() + interval '500 milliseconds' where owner = 'dead'`,
    );
    const restMs = await heir.rebalance();
    // On a slow machine the process may have seen the expiry of the lease already.
    expect(restMs < REBALANCE_EVERY_MS || heir.owned().length === SHARDS).toBe(true);
    await database.pool.query('select pg_sleep($1)', [restMs / 1000]);
    await withClockAhead(LEASE_MS / 2, () => heir.rebalance());
    expect(heir.owned()).toHaveLength(SHARDS);
    await Promise.all([dead.release(), heir.release()]);
  });

  test('are rebalanced often for a moment by processes that gain or lose some', async () => {
    let isBusy = true;
    const [first, second] = [holder('giver', () => isBusy), holder('taker')];
    expect(await first.rebalance()).toBe(REBALANCE_ALONE_MS);
    expect(await second.rebalance()).toBeLessThan(100);
    expect(await first.rebalance()).toBeLessThan(100);
    isBusy = false;
    expect(await first.rebalance()).toBe(REBALANCE_EVERY_MS);
    expect(await second.rebalance()).toBe(REBALANCE_EVERY_MS);
    expect(second.owned()).toHaveLength(SHARDS / 2);
    await Promise.all([first.release(), second.release()]);
  });

  test('that no other process took are kept over an outage longer than their lease', async () => {
    const before = holder('patient');
    await before.rebalance();
    const token = before.tokenOf(0);
    expect(token).toBeDefined();
    await database.pool.query(`update leases set expires_at = now() - interval '10 seconds'`);
    await before.rebalance();
    expect(before.tokenOf(0)).toBe(token);
    await database.pool.query(`update leases set expires_at = now() - interval '10 seconds'`);
    const other = holder('quick');
    await other.rebalance();
    expect(other.tokenOf(0)).toBeGreaterThan(token ?? 0n);
    await before.rebalance();
    expect(before.tokenOf(0)).toBeUndefined();
    await Promise.all([before.release(), other.release()]);
  });

  test('get no new work from a process whose own lease has ended, even if no other has taken them', async () => {
    const one = holder('late to renew');
    await one.rebalance();
    const now = performance.now();
    const clock = jest.spyOn(performance, 'now').mockReturnValue(now + LEASE_MS / 2);
    expect(one.owned()).toHaveLength(SHARDS);
    clock.mockReturnValue(now + LEASE_MS + 1);
    const late = [one.owned(), one.tokenOf(0)];
    clock.mockRestore();
    expect(late).toEqual([[], undefined]);
    await one.release();
  });

  test('a renewal writes one row, however many shards are owned', async () => {
    const one = holder('thrifty');
    await one.rebalance();
    const versions = async () => {
      const { rows } = await database.pool.query<{ name: string; version: string }>(
        `select name, xmin::text as version from leases where owner = 'thrifty'`,
      );
      return new Map(rows.map(({ name, version }) => [name, version]));
    };
    const before = await versions();
    await one.rebalance();
    const after = await versions();
    const changed = [...after].filter(([name, version]) => before.get(name) !== version);
    expect(changed.map(([name]) => name)).toEqual(['relay/process/thrifty']);
    await one.release();
  });

  test('stay with a process that renews its lease while another takes it for dead', async () => {
    const [slow, heir] = [holder('slow'), holder('hasty')];
    await slow.rebalance();
    await endProcess('slow');
    const renewal = await database.pool.connect();
    await renewal.query('begin');
    await renewal.query(
      `update leases set expires_at = now() + interval '1 minute' where name = 'relay/process/slow'`,
    );
    const taking = heir.rebalance();
    await waitForBlocked();
    await renewal.query('commit');
    renewal.release();
    await taking;
    await slow.rebalance();
    expect(slow.tokenOf(0)).toBeDefined();
    expect(heir.tokenOf(0)).toBeUndefined();
    await Promise.all([slow.release(), heir.release()]);
  });

  test('are taken from a process that was dead for a moment, which then takes its share again', async () => {
    const [back, heir] = [holder('back'), holder('heir of it')];
    await back.rebalance();
    await endProcess('back');
    await heir.rebalance();
    expect(heir.owned()).toHaveLength(SHARDS);
    await back.rebalance();
    expect(back.owned()).toEqual([]);
    for (const one of [back, heir, back]) await one.rebalance();
    expect([back.owned().length, heir.owned().length]).toEqual([SHARDS / 2, SHARDS / 2]);
    await Promise.all([back.release(), heir.release()]);
  });
});

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
