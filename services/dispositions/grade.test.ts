import type { MessageInitShape } from '@bufbuild/protobuf';
import { timestampDate, timestampFromDate } from '@bufbuild/protobuf/wkt';
import { Code } from '@connectrpc/connect';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { GradingInputSchema } from '../../proto/gen/rms/dispositions/v1/dispositions_pb.ts';
import { DispositionOutcome } from '../../proto/gen/rms/returns/v1/return_pb.ts';
import { copiesOf } from '../../test/kit/postgres/stored-copies.ts';
import {
  type DispositionsBench,
  invalid,
  startDispositionsBench,
  UNKNOWN_OUTCOME,
} from '../../test/kit/services/dispositions-bench.ts';
import { actor, newShop, refusal } from '../../test/kit/services/running-service.ts';
import { until } from '../../test/kit/until.ts';

let bench: DispositionsBench;
beforeAll(async () => {
  bench = await startDispositionsBench();
});
afterAll(() => bench.stop());

type Grading = Omit<MessageInitShape<typeof GradingInputSchema>, '$typeName'>;

async function grade(shopId: bigint, finding: Grading) {
  const items = [{ category: 'grade_a', ...finding }];
  return (await bench.client.gradeItems({ shopId, actor, items })).items;
}

const handedTo = (shopId: bigint) =>
  bench.returns.gradings.filter((call) => call.shopId === shopId).flatMap((call) => call.gradings);

describe('grade items', () => {
  test.each([
    ['grade_a', 'a', undefined, 'Grade A'],
    ['grade_b', 'b', undefined, 'Grade B'],
    ['grade_c', 'c', undefined, 'Grade C'],
    ['grade_d', 'd', undefined, 'Grade D'],
    ['incorrect_item', undefined, 'incorrect_item', 'Incorrect item'],
    ['missing', undefined, 'missing', 'Missing'],
    ['junk', undefined, 'junk', 'Junk'],
  ])(
    '%s is a grade or a category name, with a title in words by default',
    async (category, letter, name, title) => {
      const { shopId, line } = bench.shopWithLines(1);
      const [graded] = await grade(shopId, { lineItemId: line, category });
      expect(graded?.condition).toMatchObject({
        subject: 'item',
        title,
        description: '',
        images: [],
      });
      expect([graded?.condition?.grade, graded?.condition?.categoryName]).toEqual([letter, name]);
      expect(graded?.condition?.categoryParent).toBeUndefined();
    },
  );

  test('white space only counts as absent, because returns would never take it over', async () => {
    const { shopId, line } = bench.shopWithLines(1);
    const blank = { subject: ' ', title: '\u00a0\n' };
    const [graded] = await grade(shopId, { lineItemId: line, category: 'grade_a', ...blank });
    expect(graded?.condition).toMatchObject({ subject: 'item', title: 'Grade A' });
  });

  test('records the finding, and hands it over to returns before it responds', async () => {
    const { shopId, line } = bench.shopWithLines(1);
    const finding = {
      subject: 'box',
      title: 'Like new',
      categoryParent: 'sellable',
      description: 'Unopened',
      returnProcessor: 'north@example.com',
      note: 'Shelf 4',
      inspectedAt: timestampFromDate(new Date('2026-09-01T10:00:00Z')),
      images: ['https://img.example/1'],
    };
    const [graded] = await grade(shopId, { lineItemId: line, category: 'grade_b', ...finding });
    expect(graded).toMatchObject({ lineItemId: line, condition: { ...finding, grade: 'b' } });
    expect(handedTo(shopId)).toMatchObject([
      { lineItemId: line, condition: { ...finding, grade: 'b' }, actor },
    ]);
    expect(await bench.events(shopId)).toMatchObject([
      { trigger: 'items.graded', detail: { value: { lineItemIds: [line] } } },
    ]);
  });

  test('changes nothing when repeated with equal content', async () => {
    const { shopId, line } = bench.shopWithLines(1);
    const first = await grade(shopId, { lineItemId: line });
    expect(await grade(shopId, { lineItemId: line })).toEqual(first);
    expect(handedTo(shopId)).toHaveLength(1);
    await grade(shopId, { lineItemId: line, category: 'junk' });
    expect(handedTo(shopId)).toHaveLength(2);
  });

  test('takes only line items of the return that the request names', async () => {
    const { shopId, line } = bench.shopWithLines(1);
    const items = [{ category: 'grade_a', lineItemId: line }];
    const of = (returnId: bigint) => bench.client.gradeItems({ shopId, actor, items, returnId });
    // The return of the lines of a shop has the id of the shop.
    expect(await refusal(of(shopId + 1n))).toEqual(invalid('items[0].line_item_id'));
    expect((await of(shopId)).items).toHaveLength(1);
  });

  test('does not change the disposition of the line', async () => {
    const { shopId, line } = bench.shopWithLines(1);
    await grade(shopId, { lineItemId: line });
    const read = () => bench.client.getDispositions({ shopId, actor, lineItemIds: [line] });
    expect((await read()).items).toEqual([]);
    const outcome = DispositionOutcome.DONATE;
    await bench.client.assess({ shopId, actor, items: [{ lineItemId: line, outcome }] });
    await grade(shopId, { lineItemId: line, category: 'junk' });
    expect((await read()).items).toMatchObject([{ lineItemId: line, disposition: { outcome } }]);
  });

  test.each<[string, Grading, string]>([
    ['an unknown category', { category: 'grade_e' }, 'category'],
    ['no category', { category: '' }, 'category'],
    ['a subject of more than 191 characters', { subject: 'x'.repeat(192) }, 'subject'],
    ['a title of more than 191 characters', { title: 'x'.repeat(192) }, 'title'],
    ['NUL in a description', { description: '\0' }, 'description'],
    ['a note of more than 65,535 characters', { note: 'x'.repeat(65_536) }, 'note'],
    ['a line that does not exist', { lineItemId: 999_999_999n }, 'line_item_id'],
  ])('rejects %s', async (_, change, field) => {
    const { shopId, line } = bench.shopWithLines(1);
    const call = grade(shopId, { lineItemId: line, ...change });
    expect(await refusal(call)).toEqual(invalid(`items[0].${field}`));
  });
});

describe('get dispositions', () => {
  test('accepts 1 to 1,000 lines', async () => {
    const { shopId } = bench.shopWithLines(1);
    const read = (lineItemIds: bigint[]) =>
      bench.client.getDispositions({ shopId, actor, lineItemIds });
    expect(await refusal(read([]))).toEqual(invalid('line_item_ids'));
    const many = Array.from({ length: 1_001 }, (_, n) => BigInt(n + 1));
    expect(await refusal(read(many))).toEqual(invalid('line_item_ids'));
    expect((await read(many.slice(1))).items).toEqual([]);
  });
});

describe('settings', () => {
  test('are back to stock until a shop changes its own', async () => {
    const shopId = newShop();
    const read = async (of: bigint) =>
      (await bench.client.getSettings({ shopId: of, actor })).settings?.defaultOutcome;
    expect(await read(shopId)).toBe(DispositionOutcome.BACK_TO_STOCK);

    const settings = { defaultOutcome: DispositionOutcome.RECYCLE };
    await bench.client.updateSettings({ shopId, actor, settings });
    await bench.client.updateSettings({ shopId, actor });
    const kept = await bench.client.updateSettings({ shopId, actor, settings: {} });
    expect(kept.settings).toMatchObject(settings);
    expect(await read(shopId)).toBe(DispositionOutcome.RECYCLE);
    expect(await read(newShop())).toBe(DispositionOutcome.BACK_TO_STOCK);
  });

  test('reject an unknown outcome', async () => {
    const shopId = newShop();
    const call = bench.client.updateSettings({
      shopId,
      actor,
      settings: { defaultOutcome: UNKNOWN_OUTCOME },
    });
    expect(await refusal(call)).toEqual(invalid('settings.default_outcome'));
  });
});

describe('an assessment without an outcome', () => {
  test('uses the shop’s default outcome and the current time when they are absent', async () => {
    const { shopId, lines } = bench.shopWithLines(2);
    const [first] = await bench.assess(shopId, [{ lineItemId: lines[0] ?? 0n }]);
    expect(first?.disposition).toMatchObject({ outcome: DispositionOutcome.BACK_TO_STOCK });
    expect(first?.disposition?.note).toBeUndefined();
    const time = first?.disposition?.inspectedAt;
    expect(Math.abs(Date.now() - (time ? timestampDate(time).getTime() : 0))).toBeLessThan(10_000);

    const defaultOutcome = DispositionOutcome.RESALE_HOLD;
    await bench.client.updateSettings({ shopId, actor, settings: { defaultOutcome } });
    const [second] = await bench.assess(shopId, [{ lineItemId: lines[1] ?? 0n }]);
    expect(second?.disposition?.outcome).toBe(defaultOutcome);
  });

  test('keeps the outcome that a line has when an assessment names none', async () => {
    const { shopId, lines } = bench.shopWithLines(2);
    const [assessed, fresh] = lines.map((lineItemId) => ({ lineItemId }));
    const { RECYCLE: outcome, DONATE, BACK_TO_STOCK } = DispositionOutcome;
    await bench.assess(shopId, [{ lineItemId: 0n, ...assessed, outcome }]);
    const items = [
      { lineItemId: 0n, ...assessed, note: 'worn' },
      { lineItemId: 0n, ...fresh },
    ];
    expect(await bench.assess(shopId, items)).toMatchObject([
      { disposition: { outcome, note: 'worn' } },
      { disposition: { outcome: BACK_TO_STOCK } },
    ]);
    await bench.assess(shopId, [{ lineItemId: 0n, ...assessed, outcome: DONATE }]);
    expect(await bench.assess(shopId, [{ lineItemId: 0n, ...assessed }])).toMatchObject([
      { disposition: { outcome: DONATE } },
    ]);
    expect(bench.handedTo(shopId).at(-1)?.disposition).toMatchObject({ outcome: DONATE });
  });
});

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
