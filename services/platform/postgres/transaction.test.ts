import { once } from 'node:events';
import { connect, createServer, type Server } from 'node:net';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import type pg from 'pg';
import { createTestDatabase, type TestDatabase } from '../../../test/kit/database.ts';
import { countStatements } from '../../../test/kit/postgres/counted-statements.ts';
import { until } from '../../../test/kit/until.ts';
import { isOutage } from './outage.ts';
import { afterCommit, committing, createPool, inTransaction, together } from './postgres.ts';

let db: TestDatabase;
let proxy: Server;
let pool: pg.Pool;
/** Decides which bytes of a client the proxy forwards. It forwards none when this returns undefined. */
let pass: (sent: Buffer) => Buffer | undefined;

beforeAll(async () => {
  db = await createTestDatabase('gateway');
  proxy = createServer((client) => {
    const upstream = connect(Number(new URL(db.url).port), '127.0.0.1');
    client.on('data', (sent) => {
      const passed = pass(sent);
      if (passed) upstream.write(passed);
      else client.destroy();
    });
    upstream.pipe(client);
    client.on('error', () => upstream.destroy()).on('close', () => upstream.destroy());
    upstream.on('error', () => client.destroy());
  });
  await once(proxy.listen(0, '127.0.0.1'), 'listening');
});
afterAll(async () => {
  proxy.close();
  await db.drop();
});

beforeEach(() => {
  pass = (sent) => sent;
  const url = new URL(db.url);
  url.port = String(Reflect.get(proxy.address() ?? {}, 'port'));
  pool = createPool(url.href, { max: 1 });
});
afterEach(async () => {
  await pool.end();
  await db.pool.query('delete from leases');
});

const see = (tx: pg.PoolClient | pg.Pool, what: string) =>
  tx.query({ name: 'see', text: `insert into leases values ($1, 'x', 1, now())`, values: [what] });
const fail = (tx: pg.PoolClient) => tx.query('select 1 / $1::integer', [0]);
const caught = (work: Promise<unknown>) => work.catch((error: unknown) => error);
const seen = async () =>
  (await db.pool.query<{ name: string }>('select name from leases order by name')).rows.map(
    ({ name }) => name,
  );
/** A value that cannot be sent. */
const UNSENDABLE = {
  toPostgres() {
    throw new Error('cannot be sent');
  },
};

describe('a transaction', () => {
  test('begins in the message of its first statement, and ends in that of its last', async () => {
    await pool.query('select 1');
    const sent: string[] = [];
    pass = (data) => {
      sent.push(data.toString('latin1'));
      return data;
    };
    await inTransaction(pool, async (tx) => {
      await together(tx, () => Promise.all([see(tx, 'a'), see(tx, 'b')]));
      await committing(tx, () => see(tx, 'c'));
    });
    const messages = sent.map((text) => text.match(/begin|insert|commit/g));
    // The second and third are already prepared.
    expect(messages).toEqual([['begin', 'insert'], ['commit']]);
    expect(await seen()).toEqual(['a', 'b', 'c']);
  });

  test('without statements costs the server no work', async () => {
    await pool.query('select 1');
    pass = () => undefined;
    expect(await inTransaction(pool, async () => 'nothing')).toBe('nothing');
    const failed = inTransaction(pool, () => Promise.reject(new Error('no')));
    await expect(failed).rejects.toThrow('no');
    expect(pool.totalCount).toBe(1);
  });

  test('runs no statement when it cannot begin', async () => {
    await pool.query('select 1');
    pass = (sent) => Buffer.from(sent.toString('latin1').replace('begin\0', 'begun\0'), 'latin1');
    const works: string[] = [];
    const work = inTransaction(pool, async (tx) => {
      afterCommit(tx, () => works.push('committed'));
      await Promise.all([
        together(tx, () => Promise.all([see(tx, 'first'), see(tx, 'second')])),
        see(tx, 'third'),
        together(tx, () => see(tx, 'fourth')),
      ]);
    });
    expect(await caught(work)).toMatchObject({ code: '42601' });
    pass = (sent) => sent;
    await inTransaction(pool, (tx) => see(tx, 'later'));
    expect(await seen()).toEqual(['later']);
    expect(works).toEqual([]);
    expect(pool.totalCount).toBe(1);
  });

  test('whose first statement fails has no effect, and its connection is used again', async () => {
    const work = inTransaction(pool, (tx) => Promise.all([fail(tx), see(tx, 'lost')]));
    expect(await caught(work)).toMatchObject({ code: '22012' });
    await inTransaction(pool, (tx) => see(tx, 'later'));
    expect(await seen()).toEqual(['later']);
    expect(pool.totalCount).toBe(1);
  });

  test.each([0, 1])(
    'that loses its connection after %d messages has no effect',
    async (messages) => {
      await pool.query('select 1');
      let left = messages;
      pass = (sent) => {
        left -= 1;
        return left < 0 ? undefined : sent;
      };
      const work = inTransaction(pool, async (tx) => {
        await see(tx, 'first');
        await see(tx, 'second');
      });
      expect(isOutage(await caught(work))).toBe(true);
      pass = (sent) => sent;
      await until(() => pool.query('select 1').then(() => true));
      expect(await seen()).toEqual([]);
    },
  );

  test('accepts no statement after its end', async () => {
    let late: Promise<unknown> = Promise.resolve();
    const work = inTransaction(pool, async (tx) => {
      await see(tx, 'lost');
      late = caught(Promise.resolve().then(() => see(tx, 'late')));
      throw new Error('no');
    });
    expect(await caught(work)).toMatchObject({ message: 'no' });
    expect(await late).toMatchObject({ message: 'the transaction has ended' });
    expect(await seen()).toEqual([]);
  });
});

test('accepts no statement after its commit was sent', async () => {
  const work = inTransaction(pool, async (tx) => {
    await committing(tx, () => see(tx, 'in time'));
    await see(tx, 'late');
  });
  expect(await caught(work)).toMatchObject({ message: 'the transaction has ended' });
  expect(await seen()).toEqual(['in time']);
});

describe('statements that go together', () => {
  test('return one by one, and end at the failed one', async () => {
    const answers = await inTransaction(pool, async (tx) => {
      await see(tx, 'first');
      const all = [() => see(tx, 'second'), () => fail(tx), () => see(tx, 'third')];
      return together(tx, () => Promise.allSettled(all.map((send) => send())));
    });
    expect(answers.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'rejected']);
    expect(await seen()).toEqual([]);
  });

  test('are not committed when one of them fails', async () => {
    const work = inTransaction(pool, async (tx) => {
      await see(tx, 'first');
      await committing(tx, () => Promise.all([see(tx, 'second'), fail(tx), see(tx, 'third')]));
    });
    expect(await caught(work)).toMatchObject({ code: '22012' });
    expect(await seen()).toEqual([]);
    // Statements that the server skipped are prepared later.
    await inTransaction(pool, (tx) => committing(tx, () => see(tx, 'later')));
    expect(await seen()).toEqual(['later']);
  });

  test('are not committed when one of them cannot be sent', async () => {
    const work = inTransaction(pool, (tx) =>
      committing(tx, () =>
        Promise.all([see(tx, 'first'), tx.query('select $1', [UNSENDABLE]), see(tx, 'third')]),
      ),
    );
    expect(await caught(work)).toMatchObject({ message: 'cannot be sent' });
    expect(await seen()).toEqual([]);
    await inTransaction(pool, (tx) => see(tx, 'later'));
    expect(await seen()).toEqual(['later']);
  });

  test('share one deadline', async () => {
    await pool.query('select 1');
    const hasty = createPool(db.url, { max: 1, statementTimeoutMs: 50 });
    const work = inTransaction(hasty, (tx) =>
      committing(tx, () => Promise.all([see(tx, 'first'), tx.query('select pg_sleep(60)')])),
    );
    expect(isOutage(await caught(work))).toBe(true);
    await hasty.end();
    expect(await seen()).toEqual([]);
  });

  test('join the group in which they were started', async () => {
    const sent = countStatements(pool);
    await inTransaction(pool, (tx) =>
      committing(tx, () =>
        Promise.all([
          see(tx, 'a'),
          together(tx, () => see(tx, 'b')),
          committing(tx, () => see(tx, 'c')),
        ]),
      ),
    );
    expect(sent.roundTrips).toBe(1);
    expect(await seen()).toEqual(['a', 'b', 'c']);
  });

  test('outside of a transaction are sent one by one', async () => {
    await together(pool, () => Promise.all([see(pool, 'a'), see(pool, 'b')]));
    expect(await seen()).toEqual(['a', 'b']);
  });
});
