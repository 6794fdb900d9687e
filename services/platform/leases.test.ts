import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { createTestDatabase, type TestDatabase } from '../../test/kit/database.ts';
import { silentLogger } from '../../test/kit/services/telemetry.ts';
import { until } from '../../test/kit/until.ts';
import { LeaseLost } from './lease-lost.ts';
import { acquireLease, releaseLease, renewLease, withLease } from './leases.ts';

describe('leases', () => {
  let database: TestDatabase;
  beforeAll(async () => {
    database = await createTestDatabase('gateway');
  });
  afterAll(() => database.drop());

  const ask = (name: string, owner: string = randomUUID(), ttlMs = 10_000) =>
    acquireLease(database.pool, { name, owner, ttlMs });
  const expire = (name: string) =>
    database.pool.query('update leases set expires_at = now() where name = $1', [name]);
  /** End of the lease; undefined when it is free. */
  const endOf = async (name: string): Promise<number | undefined> => {
    const { rows } = await database.pool.query<{ expires_at: Date }>(
      'select expires_at from leases where name = $1',
      [name],
    );
    return rows[0]?.expires_at.getTime();
  };

  test('of many concurrent callers exactly one gets it', async () => {
    const name = randomUUID();
    const answers = await Promise.all(Array.from({ length: 30 }, () => ask(name)));
    expect(answers.filter((lease) => lease !== undefined)).toHaveLength(1);
  });

  test('when many race for an expired one exactly one gets it, with a higher token', async () => {
    const name = randomUUID();
    const first = await ask(name);
    await expire(name);
    const answers = await Promise.all(Array.from({ length: 30 }, () => ask(name)));
    const [winner, ...others] = answers.filter((lease) => lease !== undefined);
    expect(others).toEqual([]);
    expect(winner?.token).toBeGreaterThan(first?.token ?? 0n);
  });

  test('the owner of an expired lease can neither renew nor release it after another process took it', async () => {
    const name = randomUUID();
    const old = await ask(name);
    await expire(name);
    const held = await ask(name);
    if (!old || !held) throw new Error('both were to be acquired');
    expect(await renewLease(database.pool, old, 10_000)).toBe(false);
    await releaseLease(database.pool, old);
    expect(await renewLease(database.pool, held, 10_000)).toBe(true);
  });

  test('an expired lease that no other process took still belongs to its owner', async () => {
    const name = randomUUID();
    const held = await ask(name);
    await expire(name);
    if (!held) throw new Error('it was to be acquired');
    expect(await renewLease(database.pool, held, 10_000)).toBe(true);
    expect(await ask(name)).toBeUndefined();
  });

  test('a lease from before the clock was set back expires, unless its owner renews it', async () => {
    const [left, kept] = [await ask(randomUUID()), await ask(randomUUID())];
    if (!left || !kept) throw new Error('both were to be acquired');
    await database.pool.query(`update leases set expires_at = now() + interval '1 hour'`);
    const ends = async () => [await endOf(left.name), await endOf(kept.name)].map(Number);
    expect(Math.min(...(await ends()))).toBeGreaterThan(Date.now() + 1_800_000);
    for (const { name } of [left, kept]) expect(await ask(name)).toBeUndefined();
    expect(Math.max(...(await ends()))).toBeLessThan(Date.now() + 1_800_000);
    expect(await renewLease(database.pool, kept, 10_000)).toBe(true);
  });

  test('tokens grow over a release too', async () => {
    const name = randomUUID();
    const first = await ask(name);
    if (first) await releaseLease(database.pool, first);
    const second = await ask(name);
    expect(second?.token).toBeGreaterThan(first?.token ?? 0n);
  });

  test('withLease renews during the work, and releases', async () => {
    const name = randomUUID();
    const work = async () => {
      const before = (await endOf(name)) ?? 0;
      return until(async () => ((await endOf(name)) ?? 0) > before);
    };
    const of = { pool: database.pool, logger: silentLogger() };
    expect(await withLease({ ...of, name, owner: 'a', ttlMs: 6_000, work })).toBe(true);
    expect(await endOf(name)).toBeUndefined();
  });

  test('withLease aborts the work when the lease is lost', async () => {
    const name = randomUUID();
    const reason = await withLease({
      pool: database.pool,
      logger: silentLogger(),
      name,
      owner: 'a',
      ttlMs: 300,
      work: async (signal) => {
        // In one statement, so that no heartbeat runs between the expiry of the lease and the next owner.
        const { rowCount } = await database.pool.query(
          `update leases set owner = 'b', token = nextval('lease_tokens') where name = $1`,
          [name],
        );
        expect(rowCount).toBe(1);
        await until(() => signal.aborted);
        return signal.reason;
      },
    });
    expect(reason).toBeInstanceOf(LeaseLost);
  });

  test('withLease does not run while another process owns the lease', async () => {
    const name = randomUUID();
    await ask(name);
    const work = () => Promise.reject(new Error('must not run'));
    const of = { pool: database.pool, logger: silentLogger() };
    expect(await withLease({ ...of, name, owner: 'b', ttlMs: 300, work })).toBeUndefined();
  });
});
