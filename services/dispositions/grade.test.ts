import type { MessageInitShape } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { GradingInputSchema } from '../../proto/gen/rms/dispositions/v1/dispositions_pb.ts';
import { DispositionOutcome } from '../../proto/gen/rms/returns/v1/return_pb.ts';
import {
  type DispositionsBench,
  invalid,
  startDispositionsBench,
  UNKNOWN_OUTCOME,
} from '../../test/kit/services/dispositions-bench.ts';
import { actor, newShop, refusal } from '../../test/kit/services/running-service.ts';

type Grading = Omit<MessageInitShape<typeof GradingInputSchema>, '$typeName'>;

let bench: DispositionsBench;
beforeAll(async () => {
  bench = await startDispositionsBench();
});
afterAll(() => bench.stop());

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
