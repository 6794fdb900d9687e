import { Code } from '@connectrpc/connect';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { copiesOf } from '../../test/kit/postgres/stored-copies.ts';
import {
  type DispositionsBench,
  startDispositionsBench,
} from '../../test/kit/services/dispositions-bench.ts';
import { actor, refusal } from '../../test/kit/services/running-service.ts';
import { until } from '../../test/kit/until.ts';

let bench: DispositionsBench;
beforeAll(async () => {
  bench = await startDispositionsBench();
});
afterAll(() => bench.stop());

const longText = (mark: string) => `${mark}${'é'.repeat(2_000)}`;

describe('a long note', () => {
  test('is stored only in returns after the handover, and is still returned', async () => {
    const { shopId, line } = bench.shopWithLines(1);
    const note = longText('kept by returns');
    const items = [{ lineItemId: line, note }];
    expect(await bench.assess(shopId, items)).toMatchObject([{ disposition: { note } }]);
    expect(await copiesOf(bench.db.pool, 'kept by returns')).toEqual([]);
    expect(await bench.currentOf(shopId, [line])).toMatchObject([{ disposition: { note } }]);
  });

  test('is omitted from the response if requested', async () => {
    const { shopId, line } = bench.shopWithLines(1);
    const items = [{ lineItemId: line, note: longText('mine') }];
    const answer = await bench.client.assess({ shopId, actor, items, withoutNotes: true });
    expect(answer.items.map(({ disposition }) => disposition?.note)).toEqual([undefined]);
    expect(await bench.currentOf(shopId, [line])).toMatchObject([
      { disposition: { note: longText('mine') } },
    ]);
  });

  test('of a repeated call is recognised by its hash, and another note is not', async () => {
    const { shopId, line } = bench.shopWithLines(1);
    const assess = (note: string) => bench.assess(shopId, [{ lineItemId: line, note }]);
    const first = await assess(longText('one'));
    expect(await assess(longText('one'))).toEqual(first);
    expect(await bench.events(shopId)).toHaveLength(1);
    await assess(longText('two'));
    await assess('short');
    expect(await bench.events(shopId)).toHaveLength(3);
  });

  test('is returned to a repeat with its key, and so is the note of a later call', async () => {
    const { shopId, line } = bench.shopWithLines(1);
    const assess = async (note: string, o: { idempotencyKey?: string; withoutNotes?: boolean }) => {
      const call = { shopId, actor, items: [{ lineItemId: line, note }], ...o };
      const { items, hasNotes } = await bench.client.assess(call);
      return [items[0]?.disposition?.note, hasNotes];
    };
    const [first, later] = [longText('first'), longText('later')];
    const key = { idempotencyKey: 'k' };
    expect(await assess(first, key)).toEqual([first, true]);
    expect(await assess(first, key)).toEqual([first, true]);
    expect(await assess(later, { withoutNotes: true })).toEqual([undefined, false]);
    expect(await assess(later, { withoutNotes: true })).toEqual([undefined, false]);
    expect(await assess(first, key)).toEqual([later, true]);
    expect(bench.handedTo(shopId)).toHaveLength(2);
  });

  test('and description of a grading are handled in the same way', async () => {
    const { shopId, line } = bench.shopWithLines(1);
    const items = [
      {
        lineItemId: line,
        category: 'grade_a',
        description: longText('crack'),
        note: longText('dent'),
      },
    ];
    const grade = (idempotencyKey = '') =>
      bench.client.gradeItems({ shopId, actor, items, idempotencyKey });
    const first = await grade('k');
    expect(await grade('k')).toEqual(first);
    expect(await copiesOf(bench.db.pool, 'crack')).toEqual([]);
    expect(await copiesOf(bench.db.pool, 'dent')).toEqual([]);
    expect(await grade()).toEqual(first);
    expect(await bench.events(shopId)).toHaveLength(1);
  });

  test('is stored here until returns has taken it over', async () => {
    const { shopId, line } = bench.shopWithLines(1);
    const note = longText('pending');
    bench.returns.failWith = Code.Unavailable;
    await refusal(bench.assess(shopId, [{ lineItemId: line, note }]));
    expect(await bench.currentOf(shopId, [line])).toMatchObject([{ disposition: { note } }]);
    bench.returns.failWith = undefined;
    await bench.makeDue(shopId);
    await until(async () => (await bench.pendingOf(shopId)) === 0);
    expect(bench.handedTo(shopId)).toMatchObject([{ disposition: { note } }]);
    expect(await copiesOf(bench.db.pool, 'pending')).toEqual([]);
  });
});

test('a short note stays', async () => {
  const { shopId, line } = bench.shopWithLines(1);
  await bench.assess(shopId, [{ lineItemId: line, note: 'a scratch at the back' }]);
  expect(await copiesOf(bench.db.pool, 'a scratch')).toEqual(['inspections']);
});
