import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import pg from 'pg';
import { createTestDatabase, type TestDatabase } from '../../test/kit/database.ts';
import { silentLogger } from '../../test/kit/services/telemetry.ts';
import { until } from '../../test/kit/until.ts';
import { createHeartbeat } from './heartbeat.ts';
import { createJobLease } from './job-lease.ts';
import { LeaseLost } from './lease-lost.ts';
import { inTransaction } from './postgres.ts';
import { sql } from './sql.ts';

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
