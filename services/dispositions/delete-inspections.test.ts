import { Code } from '@connectrpc/connect';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
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
import { deleteInspections } from './delete-inspections.ts';
import { record } from './record.ts';

let bench: DispositionsBench;
beforeAll(async () => {
  bench = await startDispositionsBench();
});
afterAll(() => bench.stop());
beforeEach(() => {
  bench.returns.failWith = undefined;
  bench.returns.failingLine = undefined;
  bench.returns.beforeAssessments = undefined;
});

const notesOf = (shopId: bigint, lines: bigint[]) => bench.notesOf(shopId, lines);

describe('an inspection that does not fit into its return', () => {
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
