import { afterAll, beforeAll, beforeEach, expect, test } from '@jest/globals';
import { createTestDatabase, type TestDatabase } from '../../test/kit/database.ts';
import { inTransaction, type Queryable } from '../platform/postgres.ts';
import { type Claimed, claimDue, postpone, undoAttempt } from './handovers.ts';

let db: TestDatabase;
beforeAll(async () => {
  db = await createTestDatabase('dispositions');
});
afterAll(() => db.drop());
beforeEach(async () => {
  await db.pool.query('delete from handovers');
  await db.pool.query(
    `insert into handovers (shop_id, inspection_id, kind, line_item_id, due_at)
     select 1, n, 'assessment', n, now() from generate_series(1, 3) n`,
  );
});

const claim = async (tx: Queryable = db.pool) => {
  const claimed = await claimDue(tx);
  if (!claimed) throw new Error('nothing is due');
  return claimed;
};
const makeDue = () => db.pool.query('update handovers set due_at = now()');

/** For each handover the number of attempts, and the seconds from `now()` of the transaction until the next attempt. */
async function stored(tx: Queryable = db.pool): Promise<{ attempts: number; seconds: number }[]> {
  const { rows } = await tx.query<{ attempts: number; seconds: number }>(
    `select attempts, extract(epoch from due_at - now())::float8 as seconds from handovers order by inspection_id`,
  );
  return rows;
}

/** The handovers after a claim that ended. In one transaction, in which the time stands still. */
const afterClaim = (end: (tx: Queryable, claimed: Claimed) => Promise<void>) =>
  inTransaction(db.pool, async (tx) => {
    await end(tx, await claim(tx));
    return stored(tx);
  });

test('only one of many concurrent processes claims the lines of a shop', async () => {
  const claims = await Promise.all(Array.from({ length: 8 }, () => claimDue(db.pool)));
  const lines = claims.flatMap((claimed) => claimed?.lineItemIds ?? []);
  expect(lines.toSorted()).toEqual([1n, 2n, 3n]);
  expect(await claimDue(db.pool)).toBeUndefined();
});

test('a claim that failed is due again after ten seconds, then twenty', async () => {
  for (const { attempts, seconds } of await afterClaim(postpone)) {
    expect(attempts).toBe(1);
    expect(seconds).toBeGreaterThanOrEqual(10);
    expect(seconds).toBeLessThanOrEqual(12);
  }
  await makeDue();
  for (const { attempts, seconds } of await afterClaim(postpone)) {
    expect(attempts).toBe(2);
    expect(seconds).toBeGreaterThanOrEqual(20);
    expect(seconds).toBeLessThanOrEqual(24);
  }
});

test('after an outage the attempt does not count', async () => {
  for (const { attempts, seconds } of await afterClaim(undoAttempt)) {
    expect(attempts).toBe(0);
    expect(seconds).toBeGreaterThanOrEqual(1);
    expect(seconds).toBeLessThanOrEqual(2);
  }
});

test('a process that was too slow changes nothing of what another has claimed', async () => {
  const late = await claim();
  await makeDue();
  await claim();
  const before = (await stored()).map(({ attempts }) => attempts);
  await undoAttempt(db.pool, late);
  await postpone(db.pool, late);
  expect((await stored()).map(({ attempts }) => attempts)).toEqual(before);
  expect(await claimDue(db.pool)).toBeUndefined();
});
