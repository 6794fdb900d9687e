import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import pg from 'pg';
import { createTestDatabase, type TestDatabase } from '../../../test/kit/database.ts';
import { silentLogger } from '../../../test/kit/services/telemetry.ts';
import { until } from '../../../test/kit/until.ts';
import { inTransaction } from '../postgres/postgres.ts';
import { sql } from '../postgres/sql.ts';
import { createLeaseWatch } from './lease-watch.ts';
import {
  acquireLease,
  createHeartbeat,
  createJobLease,
  LeaseLost,
  releaseLease,
  renewLease,
  withLease,
} from './leases.ts';

describe('job lease', () => {
  interface Job {
    readonly shopId: bigint;
    readonly id: bigint;
    readonly token: bigint;
  }

  const LEASE_MS = 60_000;
  const jobs = createJobLease<Job>({
    table: 'work',
    key: { shop_id: (job) => job.shopId, id: (job) => job.id },
    dueAt: 'due_at',
    leaseMs: LEASE_MS,
    tokens: 'lease_tokens',
    isOpen: sql`not done`,
    due: (limit) => sql`
    select shop_id, id from work where not done and due_at <= now()
     order by due_at limit ${limit} for update skip locked`,
    onClaim: sql`claims = job.claims + 1`,
    returning: sql`job.shop_id as "shopId", job.id`,
  });

  let database: TestDatabase;
  let pool: pg.Pool;
  beforeAll(async () => {
    database = await createTestDatabase('gateway');
    ({ pool } = database);
    const migrator = new pg.Client({ connectionString: database.migratorUrl });
    await migrator.connect();
    await migrator.query(`set role none; create table gateway.work (
    shop_id bigint, id bigint, due_at timestamptz not null default now(), lease_token bigint,
    claims integer not null default 0, result text, done boolean not null default false,
    primary key (shop_id, id))`);
    await migrator.query('grant select, insert, update, delete on gateway.work to public');
    await migrator.end();
  });
  afterAll(() => database.drop());
  beforeEach(async () => {
    await pool.query('delete from work');
  });

  const add = (count: number) =>
    pool.query('insert into work (shop_id, id) select 1, n from generate_series(1, $1) n', [count]);
  const endLeases = () => pool.query('update work set due_at = now()');
  const finish = (job: Job, result: string) =>
    jobs.write(pool, job, { name: 'work-finish', set: sql`done = true, result = ${result}` });

  async function claimOne(): Promise<Job> {
    const [job] = await jobs.claim<Omit<Job, 'token'>>(pool, 1);
    if (!job) throw new Error('no job is due');
    return job;
  }

  describe('a job lease', () => {
    test('belongs to one of many processes that claim it concurrently', async () => {
      await add(40);
      const claims = await Promise.all(Array.from({ length: 20 }, () => jobs.claim<Job>(pool, 3)));
      const taken = claims.flat();
      expect(new Set(taken.map(({ id }) => id)).size).toBe(taken.length);
      expect(new Set(taken.map(({ token }) => token)).size).toBe(taken.length);
      expect(taken).toHaveLength(40);
    });

    test('does not wait for a job that another transaction has locked', async () => {
      await add(2);
      await inTransaction(pool, async (tx) => {
        await tx.query('select from work where id = 1 for update');
        expect((await jobs.claim<Job>(pool, 2)).map(({ id }) => id)).toEqual([2n]);
      });
    });

    test('that has expired passes to one of many, and the previous owner writes nothing', async () => {
      await add(1);
      const late = await claimOne();
      await endLeases();
      const claims = await Promise.all(Array.from({ length: 20 }, () => jobs.claim<Job>(pool, 1)));
      const [next, ...others] = claims.flat();
      if (!next) throw new Error('nobody took over the job');
      expect(others).toEqual([]);
      await expect(finish(late, 'late')).rejects.toThrow(LeaseLost);
      expect(await jobs.renew(pool, [late, next])).toEqual([late]);
      await finish(next, 'next');
      const { rows } = await pool.query('select result, claims from work');
      expect(rows).toEqual([{ result: 'next', claims: 2 }]);
    });

    test('that has ended still belongs to its process while no other took it', async () => {
      await add(1);
      const job = await claimOne();
      await endLeases();
      expect(await jobs.renew(pool, [job])).toEqual([]);
      expect(await jobs.claim(pool, 1)).toEqual([]);
      await finish(job, 'in time after all');
      expect(await jobs.renew(pool, [job])).toEqual([job]);
    });

    test.each([
      ['that is new stays as it is', '59 s', false],
      ['that is older than a heartbeat is renewed', '40 s', true],
      ['from before a step of the clock is renewed', '1 hour', true],
    ])('%s when its row is written', async (_, left, isRenewed) => {
      await add(1);
      const job = await claimOne();
      const dueAt = async () => (await pool.query('select due_at::text from work')).rows;
      await pool.query('update work set due_at = now() + $1::interval', [left]);
      const before = await dueAt();
      await jobs.write(pool, job, { name: 'work-write', set: jobs.renewal });
      expect(before[0].due_at !== (await dueAt())[0].due_at).toBe(isRenewed);
    });

    test('is rolled back with a transaction that is killed, and another process continues', async () => {
      await add(1);
      const job = await claimOne();
      const client = await pool.connect();
      client.on('error', () => {});
      await client.query('begin');
      await jobs.write(client, job, { name: 'work-half', set: sql`result = 'half'` });
      const { rows } = await client.query<{ pid: number }>('select pg_backend_pid() as pid');
      await pool.query('select pg_terminate_backend($1)', [rows[0]?.pid]);
      await until(() =>
        client.query('commit').then(
          () => false,
          () => true,
        ),
      );
      client.release(true);
      await endLeases();
      await finish(await claimOne(), 'whole');
      await expect(finish(job, 'of the dead')).rejects.toThrow(LeaseLost);
      expect((await pool.query('select result from work')).rows).toEqual([{ result: 'whole' }]);
    });

    test('is renewed beside a job whose row its process has locked', async () => {
      await add(2);
      const both = await jobs.claim<Job>(pool, 2);
      await endLeases();
      await inTransaction(pool, async (tx) => {
        await tx.query('select from work where id = 1 for update');
        expect(await jobs.renew(pool, both)).toEqual([]);
      });
      expect((await jobs.claim<Job>(pool, 2)).map(({ id }) => id)).toEqual([1n]);
    });

    test('is written only under a further condition', async () => {
      await add(1);
      const job = await claimOne();
      const writeIf = (claims: number) =>
        jobs.tryWrite(pool, job, {
          name: 'work-if',
          set: sql`result = 'changed'`,
          and: sql`claims > ${claims}`,
        });
      expect(await writeIf(1)).toBe(false);
      expect(await writeIf(0)).toBe(true);
    });
  });

  describe('a heartbeat', () => {
    const heartbeat = (leaseMs = 40) =>
      createHeartbeat<Job>({
        name: 'test',
        logger: silentLogger(),
        leaseMs,
        renew: (held) => jobs.renew(pool, held),
      });
    const renewals = async (): Promise<bigint> => {
      const { rows } = await pool.query<{ xmin: string }>('select xmin::text from work');
      return BigInt(rows[0]?.xmin ?? 0);
    };

    test('renews the lease for as long as the work takes', async () => {
      await add(1);
      const job = await claimOne();
      const work = async () => {
        for (let nth = 0; nth < 3; nth += 1) {
          const before = await renewals();
          await until(async () => (await renewals()) !== before);
        }
        return 'done';
      };
      expect(await heartbeat().during([job], { work })).toBe('done');
    });

    test('aborts the work whose lease is lost, and no other', async () => {
      await add(2);
      const [lost, kept] = await jobs.claim<Job>(pool, 2);
      if (!lost || !kept) throw new Error('two jobs were due');
      const beat = heartbeat();
      const keeping = new AbortController();
      const { signal } = keeping;
      const untilAborted = async (ended: AbortSignal): Promise<unknown> => {
        await until(() => ended.aborted);
        return ended.reason;
      };
      const other = beat.during([kept], { signal, work: untilAborted });
      await pool.query(`update work set lease_token = nextval('lease_tokens') where id = $1`, [
        lost.id,
      ]);
      expect(await beat.during([lost], { work: untilAborted })).toBeInstanceOf(LeaseLost);
      keeping.abort('the test is over');
      expect(await other).toBe('the test is over');
    });

    test('continues after a failed renewal', async () => {
      await add(1);
      const job = await claimOne();
      let calls = 0;
      const failing = createHeartbeat<Job>({
        name: 'test',
        logger: silentLogger(),
        leaseMs: 40,
        renew: async (held) => {
          calls += 1;
          if (calls === 1) throw new Error('the database is unavailable');
          return jobs.renew(pool, held);
        },
      });
      await failing.during([job], { work: () => until(() => calls >= 3) });
    });
  });
});

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

const TTL_MS = 3_000;
const HOUR_MS = 3_600_000;

/** Checks the lease of one process, `laterMs` later by the monotonic clock. */
function newWatch() {
  const watch = createLeaseWatch(TTL_MS);
  return (expiresAt: string, endsInMs: number, laterMs = 0): boolean => {
    const lease = { name: 'relay/process/a', owner: 'a', expiresAt, endsInMs };
    return watch.dead([lease], performance.now() + laterMs).length > 0;
  };
}

test.each([
  ['back', HOUR_MS],
  ['forward', -HOUR_MS],
  ['forward by a lease', -TTL_MS],
])('a process that renews its lease lives, although the clock was set %s', (_, stepMs) => {
  const isDead = newWatch();
  expect(isDead('first', TTL_MS)).toBe(false);
  expect(isDead('first', TTL_MS - 600 + stepMs)).toBe(false);
  expect(isDead('renewed', TTL_MS)).toBe(false);
  expect(isDead('renewed', TTL_MS - 600, 10 * TTL_MS)).toBe(false);
});

test.each([
  ['back', HOUR_MS],
  ['forward', -HOUR_MS],
])('a process that renews it no more is dead, although the clock was set %s', (_, stepMs) => {
  const isDead = newWatch();
  expect(isDead('first', TTL_MS)).toBe(false);
  expect(isDead('first', TTL_MS - 600 + stepMs)).toBe(false);
  expect(isDead('first', stepMs, TTL_MS / 2)).toBe(true);
});

test('a lease that was watched until it expired counts as dead immediately', () => {
  const isDead = newWatch();
  expect(isDead('first', TTL_MS)).toBe(false);
  expect(isDead('first', -1, TTL_MS)).toBe(true);
});

test('a new process trusts the stored end of a lease that has just ended, but of no other', () => {
  expect(newWatch()('first', -1)).toBe(true);
  expect(newWatch()('first', -2 * TTL_MS)).toBe(false);
  expect(newWatch()('first', HOUR_MS)).toBe(false);
});
