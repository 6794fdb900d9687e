import { Code } from '@connectrpc/connect';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import {
  type DispositionsBench,
  FINDING,
  startDispositionsBench,
} from '../../test/kit/services/dispositions-bench.ts';
import { actor, refusal } from '../../test/kit/services/running-service.ts';
import { until } from '../../test/kit/until.ts';
import { record } from './record.ts';

let bench: DispositionsBench;
beforeAll(async () => {
  bench = await startDispositionsBench();
});
afterAll(() => bench.stop());
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

describe('when returns does not take over an inspection', () => {
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
