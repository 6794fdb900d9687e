import { Code } from '@connectrpc/connect';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { createTestDatabase, type TestDatabase } from '../../test/kit/database.ts';
import {
  type DispositionsBench,
  FINDING,
  notesIn,
  refusedAsTooLarge as refused,
  startDispositionsBench,
  TOO_LARGE_TEXT as TEXT,
  tooLarge,
} from '../../test/kit/services/dispositions-bench.ts';
import { actor, refusal } from '../../test/kit/services/running-service.ts';
import { until } from '../../test/kit/until.ts';
import { inTransaction, type Queryable } from '../platform/postgres/postgres.ts';
import { deleteInspections } from './delete-inspections.ts';
import { type Claimed, claimDue, postpone, undoAttempt } from './hand-over.ts';
import { record } from './inspect.ts';

let bench: DispositionsBench;
beforeAll(async () => {
  bench = await startDispositionsBench();
});
afterAll(() => bench.stop());

describe('when returns does not take over an inspection', () => {
  beforeEach(() => {
    bench.returns.failWith = undefined;
    bench.returns.failingLine = undefined;
  });

  const assessAll = (shopId: bigint, lines: readonly bigint[]) =>
    bench.assess(
      shopId,
      lines.map((lineItemId) => ({ lineItemId })),
    );

  /** Waits until this many more attempts have failed. */
  async function failAgain(shopId: bigint, times: number): Promise<void> {
    for (let tries = 0; tries < times; tries++) {
      const before = bench.returns.failed;
      // The attempt before may set its next one only after this.
      await until(async () => {
        await bench.makeDue(shopId);
        return bench.returns.failed > before;
      });
    }
  }

  test('the call is unavailable, and a repeat hands over the same assessment', async () => {
    const { shopId, line } = bench.shopWithLines(1);
    bench.returns.failWith = Code.Unavailable;
    const call = () => bench.assess(shopId, [{ lineItemId: line, note: 'worn' }]);
    expect(await refusal(call())).toMatchObject({ code: Code.Unavailable });
    expect(await bench.pendingOf(shopId)).toBe(1);

    bench.returns.failWith = undefined;
    await call();
    expect(bench.handedTo(shopId)).toHaveLength(1);
    expect(await bench.events(shopId)).toHaveLength(1);
    expect(await bench.pendingOf(shopId)).toBe(0);
  });

  test('the job hands over what a call or a crash left pending', async () => {
    const { shopId, line } = bench.shopWithLines(1);
    bench.returns.failWith = Code.Unavailable;
    await refusal(bench.assess(shopId, [{ lineItemId: line, note: 'worn' }]));
    bench.returns.failWith = undefined;
    await bench.makeDue(shopId);
    await until(() => bench.handedTo(shopId).length > 0);
    await until(async () => (await bench.pendingOf(shopId)) === 0);
    expect(bench.handedTo(shopId)).toMatchObject([
      { lineItemId: line, disposition: { note: 'worn' }, actor },
    ]);
    expect(
      bench.returns.assessments.find((handed) => handed.shopId === shopId)?.actor,
    ).toMatchObject({
      id: 'dispositions',
    });
  });

  test('the job hands over what a process committed before it was killed', async () => {
    const { shopId, lines } = bench.shopWithLines(31);
    const findings = lines.map((lineItemId) => ({ ...FINDING, lineItemId }));
    await record(bench.db.pool, { shopId, actor, kind: 'assessment', findings });
    expect(bench.handedTo(shopId)).toEqual([]);
    await bench.makeDue(shopId);
    await until(async () => (await bench.pendingOf(shopId)) === 0);
    const handed = bench.handedTo(shopId).map(({ lineItemId }) => lineItemId);
    expect(new Set(handed)).toEqual(new Set(lines));
  });

  test('the job leaves the assessments of a running call to that call', async () => {
    const [busy, next] = [bench.shopWithLines(2), bench.shopWithLines(1)];
    const recordAll = (shopId: bigint, lines: readonly bigint[], note: string) => {
      const findings = lines.map((lineItemId) => ({ ...FINDING, lineItemId, note }));
      return record(bench.db.pool, { shopId, actor, kind: 'assessment', findings });
    };
    const { created } = await recordAll(busy.shopId, [busy.line], 'left');
    await recordAll(busy.shopId, busy.lines, 'running');
    await bench.db.pool.query(
      'update handovers set due_at = now() where shop_id = $1 and inspection_id = $2',
      [busy.shopId, created[0]?.id],
    );
    await until(() => bench.handedTo(busy.shopId).length > 0);
    // The job works on one shop after another.
    await recordAll(next.shopId, next.lines, 'next');
    await bench.makeDue(next.shopId);
    await until(() => bench.handedTo(next.shopId).length > 0);
    expect(bench.notesHandedTo(busy.shopId)).toEqual([['left']]);
    expect(await bench.pendingOf(busy.shopId)).toBe(2);
  });

  test('several assessments of a line arrive oldest first, one in each call', async () => {
    const { shopId, line } = bench.shopWithLines(1);
    bench.returns.failWith = Code.Unavailable;
    await refusal(bench.assess(shopId, [{ lineItemId: line, note: 'first' }]));
    bench.returns.failWith = undefined;
    await bench.assess(shopId, [{ lineItemId: line, note: 'second' }]);
    const calls = bench.returns.assessments.filter((handed) => handed.shopId === shopId);
    expect(
      calls.map(({ assessments }) => assessments.map(({ disposition }) => disposition?.note)),
    ).toEqual([['first'], ['second']]);
  });

  test('after an outage all is handed over within seconds', async () => {
    const { shopId, lines } = bench.shopWithLines(3);
    bench.returns.failWith = Code.Unavailable;
    await refusal(assessAll(shopId, lines));
    // Fail more often than the number of attempts after which a line counts as rejected and is claimed alone.
    await failAgain(shopId, 4);
    bench.returns.failWith = undefined;
    await until(async () => (await bench.pendingOf(shopId)) === 0);
    expect(bench.handedTo(shopId)).toHaveLength(3);
  });

  test('a timeout counts as an attempt, and in the end the line is claimed alone', async () => {
    const { shopId, lines } = bench.shopWithLines(2);
    bench.returns.failWith = Code.DeadlineExceeded;
    await refusal(assessAll(shopId, lines));
    await failAgain(shopId, 3);
    bench.returns.failWith = undefined;
    await until(async () => {
      await bench.makeDue(shopId);
      return (await bench.pendingOf(shopId)) === 0;
    });
    const calls = bench.returns.assessments.filter((handed) => handed.shopId === shopId);
    expect(calls.map(({ assessments }) => assessments.length)).toEqual([1, 1]);
  });

  test('a line item that is always rejected does not delay the others', async () => {
    const { shopId, lines } = bench.shopWithLines(3);
    bench.returns.failWith = Code.Unavailable;
    await refusal(assessAll(shopId, lines));
    bench.returns.failWith = Code.InvalidArgument;
    bench.returns.failingLine = lines[1];
    await until(async () => {
      await bench.makeDue(shopId);
      return bench.handedTo(shopId).length >= 2;
    });
    expect(new Set(bench.handedTo(shopId).map(({ lineItemId }) => lineItemId))).toEqual(
      new Set([lines[0], lines[2]]),
    );
    // The job deletes its handover after the response.
    await until(async () => (await bench.pendingOf(shopId)) === 1);
    await bench.db.pool.query('delete from handovers where shop_id = $1', [shopId]);
  });
});

describe('handovers', () => {
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
});

describe('an inspection that does not fit into its return', () => {
  beforeEach(() => {
    bench.returns.failWith = undefined;
    bench.returns.failingLine = undefined;
    bench.returns.beforeAssessments = undefined;
  });

  const notesOf = (shopId: bigint, lines: bigint[]) => bench.notesOf(shopId, lines);

  test('is rejected with the reason of returns, and no finding of the call stays', async () => {
    const { shopId, lines } = bench.shopWithLines(3);
    const items = lines.map((lineItemId) => ({ lineItemId, note: 'long' }));
    bench.returns.failWith = tooLarge;
    bench.returns.failingLine = lines[1];
    expect(await refusal(bench.assess(shopId, items))).toMatchObject(refused);
    await expect(bench.assess(shopId, items)).rejects.toThrow(TEXT);
    expect(await bench.currentOf(shopId, lines)).toEqual([]);
    expect(await bench.pendingOf(shopId)).toBe(0);
    const { rows } = await bench.db.pool.query('select from inspections where shop_id = $1', [
      shopId,
    ]);
    expect(rows).toEqual([]);
  });

  test('does not change the previous assessment of a line', async () => {
    const { shopId, line } = bench.shopWithLines(1);
    await bench.assess(shopId, [{ lineItemId: line, note: 'first' }]);
    bench.returns.failWith = tooLarge;
    await refusal(bench.assess(shopId, [{ lineItemId: line, note: 'too long' }]));
    expect(await notesOf(shopId, [line])).toEqual(['first']);

    bench.returns.failWith = undefined;
    await bench.assess(shopId, [{ lineItemId: line, note: 'second' }]);
    expect(await notesOf(shopId, [line])).toEqual(['second']);
    expect(bench.handedTo(shopId).map(({ disposition }) => disposition?.note)).toEqual([
      'first',
      'second',
    ]);
  });

  test('is rejected for gradings, too', async () => {
    const { shopId, line } = bench.shopWithLines(1);
    bench.returns.failWith = tooLarge;
    const items = [{ lineItemId: line, category: 'grade_a', description: 'long' }];
    expect(await refusal(bench.client.gradeItems({ shopId, actor, items }))).toMatchObject(refused);
    expect(await bench.pendingOf(shopId)).toBe(0);
  });

  test('is deleted, so that the job hands over the other inspections', async () => {
    const { shopId, lines } = bench.shopWithLines(3);
    const [former, large] = [lines[0] ?? 0n, lines[1] ?? 0n];
    await bench.assess(shopId, [{ lineItemId: large, note: 'before' }]);
    bench.returns.failWith = Code.Unavailable;
    const items = lines.map((lineItemId) => ({ lineItemId, note: 'pending' }));
    await refusal(bench.assess(shopId, items));

    bench.returns.failingLine = large;
    bench.returns.failWith = tooLarge;
    await bench.makeDue(shopId);
    await until(async () => (await bench.pendingOf(shopId)) === 0);
    expect(await notesOf(shopId, lines)).toEqual(['pending', 'before', 'pending']);
    expect(bench.handedTo(shopId).map(({ lineItemId }) => lineItemId)).toContain(former);
  });

  test('is deleted by the job alone, not what another call recorded in the meantime', async () => {
    const { shopId, line: lineItemId } = bench.shopWithLines(1);
    const { pool } = bench.db;
    const batchOf = (note: string) => {
      const findings = [{ ...FINDING, lineItemId, note }];
      return { shopId, actor, kind: 'assessment', findings } as const;
    };
    const { created } = await record(pool, batchOf('large'));
    const recorded = Promise.withResolvers<void>();
    bench.returns.beforeAssessments = async (request) => {
      if (!notesIn(request).includes('large')) return;
      await deleteInspections(pool, batchOf('large'), created);
      await record(pool, batchOf('fits'));
      recorded.resolve();
      throw tooLarge;
    };
    await bench.makeDue(shopId);
    await recorded.promise;
    await bench.makeDue(shopId);
    await until(async () => (await bench.pendingOf(shopId)) === 0);
    expect(bench.notesHandedTo(shopId)).toEqual([['fits']]);
    expect(await notesOf(shopId, [lineItemId])).toEqual(['fits']);
  });

  test('does not change later findings about the line', async () => {
    const { shopId, line } = bench.shopWithLines(1);
    bench.returns.failWith = Code.Unavailable;
    await refusal(bench.assess(shopId, [{ lineItemId: line, note: 'large' }]));
    bench.returns.failWith = tooLarge;
    await refusal(bench.assess(shopId, [{ lineItemId: line, note: 'larger' }]));
    expect(await notesOf(shopId, [line])).toEqual(['large']);
    await bench.makeDue(shopId);
    await until(async () => (await bench.pendingOf(shopId)) === 0);
    expect(await bench.currentOf(shopId, [line])).toEqual([]);
  });
});
