import type { MessageInitShape } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { DispositionOutcome, type Return } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import type { ReturnSelectorSchema } from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { line, newId } from '../../../test/kit/builders.ts';
import {
  firstLine,
  invalid,
  notFound,
  present,
  type ReturnsBench,
  startReturnsBench,
} from '../../../test/kit/services/returns-bench.ts';
import { actor, refusal } from '../../../test/kit/services/running-service.ts';
import { cleanText, normalForm } from '../../platform/text.ts';
import { loadFitting } from '../store/load.ts';
import type { Selector } from './select.ts';

let bench: ReturnsBench;
beforeAll(async () => {
  bench = await startReturnsBench();
});
afterAll(() => bench.stop());

const MEBIBYTE = 2 ** 20;
const day = (n: number) => timestampFromDate(new Date(Date.UTC(2026, 0, n)));

/** Makes a return as large as after many small calls. */
async function addUploads(of: Return, bytes: number): Promise<void> {
  const url = `https://x.example/${'x'.repeat(2_000)}`;
  await bench.db.pool.query(
    `insert into uploads (shop_id, return_id, line_item_id, kind, url)
     select $1, $2, $3, 'image', $4 from generate_series(1, $5)`,
    [of.shopId, of.id, firstLine(of), url, Math.ceil(bytes / url.length)],
  );
}

describe('find return', () => {
  const find = async (
    shopId: bigint,
    selector: Parameters<typeof bench.client.findReturn>[0]['selector'],
  ) =>
    (await bench.client.findReturn({ shopId, actor, selector: selector ?? { case: undefined } }))
      .return;

  test('finds by id, either order id, and order name', async () => {
    const one = await bench.submit(await bench.shop());
    const order = present(one.order);
    expect(await find(one.shopId, { case: 'returnId', value: one.id })).toEqual(one);
    const value = order.providerOrderId;
    expect(await find(one.shopId, { case: 'orderId', value })).toEqual(one);
    expect(await find(one.shopId, { case: 'providerOrderId', value })).toEqual(one);
    expect(await find(one.shopId, { case: 'orderId', value: order.id })).toEqual(one);
    expect(await find(one.shopId, { case: 'orderName', value: order.name })).toEqual(one);
  });

  test('finds by the order id of its response, also when another order has this id at the provider', async () => {
    const shopId = await bench.shop();
    const first = await bench.submit(shopId);
    const ours = present(first.order).id;
    const second = await bench.submit(shopId, { order: { providerOrderId: ours, name: '#2' } });
    expect(await find(shopId, { case: 'orderId', value: ours })).toEqual(first);
    expect(await find(shopId, { case: 'providerOrderId', value: ours })).toEqual(second);
    const unknown = { case: 'providerOrderId', value: present(second.order).id } as const;
    expect(await refusal(find(shopId, unknown))).toEqual(notFound('RETURN'));
  });

  test.each(['CAF\u00c9-1', 'CAFE\u0301-1', ' CAF\u00c9-1', 'CAFE\u0301-1\u00a0'])(
    'finds an order name in another spelling, and returns it as sent: %j',
    async (name) => {
      const shopId = await bench.shop();
      const stored = 'CAFE\u0301-1 ';
      await bench.submit(shopId, { order: { providerOrderId: newId(), name: stored } });
      expect((await find(shopId, { case: 'orderName', value: name }))?.order?.name).toBe(stored);
    },
  );

  test('compares names as `normalForm` does, whatever their characters', async () => {
    const texts = fc.sample(fc.string({ unit: 'binary', maxLength: 12 }).filter(cleanText), 2_000);
    const spaces = Array.from({ length: 0x3001 }, (_, at) => `${String.fromCharCode(at + 1)}x`);
    const all = [...texts, ...spaces, '\ufeffx'];
    const { rows } = await bench.db.pool.query<{ normal: string }>(
      `select normal_form(text) as normal from unnest($1::text[]) with ordinality as given (text, at)
        order by at`,
      [all],
    );
    expect(rows.map(({ normal }) => normal)).toEqual(all.map(normalForm));
  });

  test('returns the newest of several, and the later one of two with the same time', async () => {
    const shopId = await bench.shop();
    const order = { providerOrderId: newId(), name: '#same' };
    await bench.submit(shopId, { order, submittedAt: day(3) });
    const newest = await bench.submit(shopId, { order, submittedAt: day(3) });
    await bench.submit(shopId, { order, submittedAt: day(2) });
    const value = order.providerOrderId;
    expect(await find(shopId, { case: 'orderId', value })).toEqual(newest);
    expect(await find(shopId, { case: 'orderName', value: '#same' })).toEqual(newest);
  });

  test('finds no part of a name and no unknown return, and requires a selector', async () => {
    const { shopId } = await bench.submit(await bench.shop());
    for (const value of ['#100', '#1001x', 'a\0b']) {
      expect(await refusal(find(shopId, { case: 'orderName', value }))).toEqual(notFound('RETURN'));
    }
    expect(await refusal(find(shopId, { case: 'returnId', value: 0n }))).toEqual(
      notFound('RETURN'),
    );
    expect(await refusal(find(shopId, { case: undefined }))).toEqual(invalid('selector'));
  });
});

describe('get returns', () => {
  test('returns in the order of the request and omits what does not exist', async () => {
    const shopId = await bench.shop();
    const [first, second] = [await bench.submit(shopId), await bench.submit(shopId)];
    const returnIds = [second.id, 999_999_998n, first.id];
    const { returns } = await bench.client.getReturns({ shopId, actor, returnIds });
    expect(returns).toEqual([second, first]);
    expect(await refusal(bench.client.getReturns({ shopId, actor }))).toEqual(
      invalid('return_ids'),
    );
  });

  test('returns the first one of any size, and stops before the next that does not fit', async () => {
    const shopId = await bench.shop();
    const [large, largest] = [await bench.submit(shopId), await bench.submit(shopId)];
    const small = await bench.submit(shopId);
    await addUploads(large, 5 * MEBIBYTE);
    await addUploads(largest, 9 * MEBIBYTE);
    const get = async (...of: Return[]) => {
      const returnIds = of.map(({ id }) => id);
      const { returns } = await bench.client.getReturns({ shopId, actor, returnIds });
      return returns.map(({ id }) => id);
    };
    expect(await get(small, large, small)).toEqual([small.id, large.id]);
    expect(await get(large, largest, small)).toEqual([large.id]);
    expect(await get(largest, small)).toEqual([largest.id]);
    expect(await get(largest)).toEqual([largest.id]);
  });
});

describe('get snapshot', () => {
  const snapshot = (of: Return, revision: bigint) =>
    bench.client.getSnapshot({ shopId: of.shopId, actor, returnId: of.id, revision });

  test('returns a return as it was, when its event has no snapshot', async () => {
    const submitted = await bench.submit(await bench.shop(), {
      lines: Array.from({ length: 15 }, () => line()),
    });
    const { shopId } = submitted;
    const note = 'n'.repeat(65_535);
    const assess = (assessmentId: bigint) =>
      bench.client.applyAssessments({
        shopId,
        actor,
        assessments: submitted.lineItems.map(({ lineItemId }) => ({
          lineItemId,
          assessmentId,
          disposition: { outcome: DispositionOutcome.DONATE, note },
        })),
      });
    const { returns } = await assess(1n);
    await assess(2n);
    await bench.client.flagReturn({ shopId, actor, returnId: submitted.id, reasons: ['x'] });

    const published = (await bench.events(shopId)).find((event) => event.revision === 2n);
    expect(published).toMatchObject({ trigger: 'return.updated', snapshotOmitted: true });
    expect(published?.snapshot).toBeUndefined();
    expect((await snapshot(submitted, 2n)).return).toEqual(returns[0]);
    expect((await snapshot(submitted, 3n)).return?.flagReasons).toEqual(['x']);
  });

  test('rejects a revision that is not stored', async () => {
    const submitted = await bench.submit(await bench.shop());
    expect((await snapshot(submitted, 1n)).return).toEqual(submitted);
    expect(await refusal(snapshot(submitted, 2n))).toEqual(notFound('RETURN'));
  });
});

describe('check line items', () => {
  test('names the shop’s lines and their returns, no others', async () => {
    const one = await bench.submit(await bench.shop(), { lines: [line(), line()] });
    const foreign = await bench.submit(await bench.shop());
    const ids = one.lineItems.map((item) => item.lineItemId);
    const lineItemIds = [...ids, 1n << 40n, present(foreign.lineItems[0]).lineItemId];
    const { owners } = await bench.client.checkLineItems({
      shopId: one.shopId,
      actor,
      lineItemIds,
    });
    expect(owners.map(({ lineItemId, returnId }) => ({ lineItemId, returnId }))).toEqual(
      ids.map((lineItemId) => ({ lineItemId, returnId: one.id })),
    );
  });
});

describe('find returns', () => {
  const find = async (shopId: bigint, ...selectors: Selector[]) => {
    const asked = selectors.map((selector) => ({ selector }));
    const { found } = await bench.client.findReturns({ shopId, actor, selectors: asked });
    return found.sort((a, b) => Number(present(a.return).id - present(b.return).id));
  };
  const byId = (of: Return): Selector => ({ case: 'returnId', value: of.id });

  test('returns each return once for all its selectors, and omits what does not exist', async () => {
    const shopId = await bench.shop();
    const one = await bench.submit(shopId, { order: { providerOrderId: newId(), name: '#one' } });
    const two = await bench.submit(shopId);
    const order = present(one.order);
    const found = await find(
      shopId,
      { case: 'orderName', value: '#one' },
      byId(two),
      { case: 'returnId', value: newId() },
      { case: 'orderId', value: order.providerOrderId },
      { case: 'orderId', value: newId() },
      { case: 'orderName', value: 'no\0ne' },
      byId(one),
    );
    expect(found).toMatchObject([
      { positions: [0, 3, 6], return: one },
      { positions: [1], return: two },
    ]);
  });

  test('returns the newest return of an order, as findReturn does', async () => {
    const shopId = await bench.shop();
    const order = { providerOrderId: newId(), name: '#same' };
    await bench.submit(shopId, { order, submittedAt: day(2) });
    const newest = await bench.submit(shopId, { order, submittedAt: day(3) });
    const found = await find(
      shopId,
      { case: 'orderId', value: order.providerOrderId },
      { case: 'orderName', value: '#same' },
    );
    expect(found).toMatchObject([{ positions: [0, 1], return: newest }]);
  });

  test('omits what does not fit', async () => {
    const shopId = await bench.shop();
    const ids = [await bench.submit(shopId), await bench.submit(shopId)].map((of) => of.id);
    ids.reverse();
    const read = async (maxBytes: number, keepsFirst = false) => {
      const found = await loadFitting(bench.db.pool, shopId, ids, { maxBytes, keepsFirst });
      return found.map((of) => of.id);
    };
    expect(await read(1_000_000)).toEqual(ids);
    expect(await read(1_500)).toEqual(ids.slice(0, 1));
    expect(await read(10)).toEqual([]);
    expect(await read(10, true)).toEqual(ids.slice(0, 1));
  });

  test('requires 1 to 32 selectors, none empty', async () => {
    const shopId = await bench.shop();
    const of = await bench.submit(shopId);
    expect(await find(shopId, ...Array.from({ length: 32 }, () => byId(of)))).toHaveLength(1);
    const ask = (selectors: MessageInitShape<typeof ReturnSelectorSchema>[]) =>
      refusal(bench.client.findReturns({ shopId, actor, selectors }));
    expect(await ask([])).toEqual(invalid('selectors'));
    expect(await ask([{}])).toEqual(invalid('selectors[0].selector'));
    const many = Array.from({ length: 33 }, () => ({ selector: byId(of) }));
    expect(await ask(many)).toEqual(invalid('selectors'));
  });
});
