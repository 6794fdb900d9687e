import { randomUUID } from 'node:crypto';
import type { MessageInitShape } from '@bufbuild/protobuf';
import { timestampDate, timestampFromDate } from '@bufbuild/protobuf/wkt';
import { Code } from '@connectrpc/connect';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { RecordReceiptRequestSchema } from '../../../proto/gen/rms/returns/v1/arrivals_pb.ts';
import { type Return, ReturnState } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { type Fields, line } from '../../../test/kit/builders.ts';
import { WAREHOUSE } from '../../../test/kit/services/fake-destinations.ts';
import {
  firstLine,
  invalid,
  notFound,
  present,
  type ReturnsBench,
  startReturnsBench,
} from '../../../test/kit/services/returns-bench.ts';
import { actor, refusal } from '../../../test/kit/services/running-service.ts';

let bench: ReturnsBench;
beforeAll(async () => {
  bench = await startReturnsBench();
});
afterAll(() => bench.stop());

type Receipt = Fields<MessageInitShape<typeof RecordReceiptRequestSchema>>;

const EARLIER = timestampFromDate(new Date('2026-02-01T08:00:00Z'));

/** Records an arrival at a return, by its id unless `more` selects it in another way. */
const receive = ({ shopId, id }: Return, more: Partial<Receipt>) =>
  bench.client.recordReceipt({
    shopId,
    actor,
    idempotencyKey: randomUUID(),
    return: { case: 'returnId', value: id },
    ...more,
  });

const itemOf = (of: Return, quantity: number, damagedQuantity = 0) => ({
  lineItemId: firstLine(of),
  quantity,
  damagedQuantity,
});

/** A return of one line item with so many units. */
const submitted = async (quantity: number): Promise<Return> =>
  bench.submit(await bench.shop(), { lines: [line({ quantity })] });

const arrivalsOf = async ({ shopId, id: returnId }: Return) =>
  (await bench.client.listArrivals({ shopId, actor, returnId })).arrivals;

const entriesOf = async (of: Return) =>
  (await bench.timeline(of)).filter(({ kind }) => kind.startsWith('return.'));

describe('record receipt', () => {
  test('counts units, sets the time, and publishes one event', async () => {
    const of = await submitted(3);
    const { arrival, repeated } = await receive(of, {
      arrivedAt: EARLIER,
      destinationId: WAREHOUSE,
      items: [{ ...itemOf(of, 2, 1), note: 'A sleeve is torn' }],
    });
    expect(repeated).toBe(false);
    expect(arrival).toMatchObject({
      returnId: of.id,
      destinationId: WAREHOUSE,
      arrivedAt: EARLIER,
      items: [{ ...itemOf(of, 2, 1), note: 'A sleeve is torn' }],
      unexpected: [],
    });
    const after = await bench.read(of);
    expect(after.lineItems[0]).toMatchObject({
      arrivedQuantity: 2,
      damagedQuantity: 1,
      returnedAt: EARLIER,
    });
    expect(after.revision).toBe(of.revision + 1n);
    expect(await bench.triggers(of)).toEqual(['return.updated']);
    expect((await entriesOf(of)).at(-1)).toMatchObject({
      kind: 'return.arrived',
      text: 'Goods arrived: 2 units, 1 damaged',
      facts: { arrival: `${arrival?.id}`, lines: `${firstLine(of)}`, units: '2', damaged: '1' },
    });
  });

  test('adds up partial arrivals, and keeps the first time unless it gets another', async () => {
    const of = await submitted(5);
    await receive(of, { items: [itemOf(of, 2, 1)] });
    const { returnedAt } = present((await bench.read(of)).lineItems[0]);
    expect(returnedAt).toBeDefined();
    await receive(of, { items: [itemOf(of, 1)] });
    expect((await bench.read(of)).lineItems[0]).toMatchObject({
      arrivedQuantity: 3,
      damagedQuantity: 1,
      returnedAt,
    });
    await receive(of, { items: [itemOf(of, 2, 2)], arrivedAt: EARLIER });
    expect((await bench.read(of)).lineItems[0]).toMatchObject({
      arrivedQuantity: 5,
      damagedQuantity: 3,
      returnedAt: EARLIER,
    });
    const units = (await arrivalsOf(of)).map(({ items }) => items[0]?.quantity);
    expect(units).toEqual([2, 1, 2]);
  });

  test('records more than was announced as unexpected, the damaged units first', async () => {
    const of = await bench.submit(await bench.shop(), {
      lines: [line({ quantity: 2, sku: 'S-1', title: 'Scarf', barcode: '42' })],
    });
    const { arrival } = await receive(of, {
      items: [itemOf(of, 4, 3)],
      unexpected: [{ sku: 'HAT', title: 'A hat', quantity: 1, note: 'Not ours' }],
    });
    expect(arrival?.unexpected).toMatchObject([
      { lineItemId: 0n, sku: 'HAT', title: 'A hat', barcode: '', quantity: 1, note: 'Not ours' },
      { lineItemId: firstLine(of), sku: 'S-1', title: 'Scarf', barcode: '42', quantity: 2 },
    ]);
    const after = await bench.read(of);
    expect(after.lineItems[0]).toMatchObject({ arrivedQuantity: 2, damagedQuantity: 1 });
    expect(after.unexpectedQuantity).toBe(3);
    expect((await entriesOf(of)).at(-1)?.text).toBe(
      'Goods arrived: 5 units, 3 damaged, 3 not announced',
    );
  });

  test('publishes an event for goods of which nothing was announced', async () => {
    const of = await submitted(1);
    await receive(of, { items: [itemOf(of, 1)] });
    await receive(of, { items: [itemOf(of, 1)] });
    await receive(of, { unexpected: [{ quantity: 1 }] });
    expect((await bench.read(of)).unexpectedQuantity).toBe(2);
    expect(await bench.triggers(of)).toEqual(Array(3).fill('return.updated'));
  });

  test('counts from zero after the arrival of the whole line item, which then is not whole', async () => {
    const of = await submitted(3);
    const lineItemIds = [firstLine(of)];
    await bench.client.recordArrival({ shopId: of.shopId, actor, lineItemIds });
    const whole = (await bench.read(of)).lineItems[0];
    expect(whole).toMatchObject({ arrivedQuantity: 0, returnedAt: whole?.returnedAt });
    await receive(of, { items: [itemOf(of, 1)] });
    expect((await bench.read(of)).lineItems[0]).toMatchObject({ arrivedQuantity: 1 });
    expect((await bench.read(of)).unexpectedQuantity).toBe(0);
    expect(await bench.triggers(of)).toEqual(['return.updated', 'return.updated']);
  });

  test('counts at most the announced units after an edit, and the damaged ones last', async () => {
    const of = await submitted(3);
    await receive(of, { items: [itemOf(of, 3, 2)] });
    const { revision: expectedRevision } = await bench.read(of);
    const changes = [{ lineItemId: firstLine(of), quantity: 2 }];
    const call = { shopId: of.shopId, actor, returnId: of.id, expectedRevision, changes };
    const { return: edited } = await bench.client.editReturn(call);
    expect(edited?.lineItems[0]).toMatchObject({ arrivedQuantity: 2, damagedQuantity: 1 });
  });

  test.each([
    [
      'closed',
      ReturnState.CLOSED,
      'Goods arrived: 1 unit. The return is closed: nothing more is paid',
    ],
    [
      'cancelled',
      ReturnState.CANCELLED,
      'Goods arrived: 1 unit. The return is cancelled: nothing more is paid',
    ],
    ['expired', ReturnState.OPEN, 'Goods arrived: 1 unit'],
  ] as const)('takes goods of a return that is %s', async (end, state, text) => {
    const of = await submitted(1);
    await bench.end(of, end);
    const { arrival } = await receive(of, { items: [itemOf(of, 1)] });
    expect(arrival?.returnState).toBe(state);
    const after = await bench.read(of);
    expect(after.state).toBe(state);
    expect(after.lineItems[0]).toMatchObject({ arrivedQuantity: 1 });
    expect(after.totals).toEqual(of.totals);
    expect(await bench.triggers(of)).toEqual(['return.updated']);
    expect((await entriesOf(of)).map((entry) => entry.text)).toContain(text);
  });
});

describe('the return of a receipt', () => {
  const named = (order: Return['order'], shopId: bigint, more: object = {}) =>
    bench.submit(shopId, {
      order: { providerOrderId: BigInt(Date.now()), name: present(order).name },
      ...more,
    });

  test('is found by the name of its order, in any form of the name', async () => {
    const of = await bench.submit(await bench.shop(), {
      order: { providerOrderId: 5n, name: ' #Cafe\u0301 ' },
    });
    const selector = { case: 'orderName', value: '#Caf\u00e9' } as const;
    expect(
      (await receive(of, { return: selector, items: [itemOf(of, 1)] })).arrival?.returnId,
    ).toBe(of.id);
  });

  test('is found by the tracking number of any of its labels', async () => {
    const of = await submitted(1);
    const label = { shopId: of.shopId, actor, returnId: of.id, carrier: 'Evri' };
    for (const trackingNumber of ['T-1', 'T-2', 'T-1']) {
      const idempotencyKey = randomUUID();
      await bench.client.recordLabel({ ...label, trackingNumber, idempotencyKey });
    }
    const selector = { case: 'trackingNumber', value: 'T-1' } as const;
    const { arrival } = await receive(of, { return: selector, unexpected: [{ quantity: 1 }] });
    expect(arrival?.returnId).toBe(of.id);
  });

  test('must be the only match: the error names all, without cancelled ones', async () => {
    const shopId = await bench.shop();
    const first = await bench.submit(shopId);
    const [second, cancelled] = [
      await named(first.order, shopId),
      await named(first.order, shopId),
    ];
    const selector = { case: 'orderName', value: present(first.order).name } as const;
    const call = () => receive(first, { return: selector, unexpected: [{ quantity: 1 }] });
    await bench.end(cancelled, 'cancelled');
    const error = await call().then(
      () => undefined,
      (caught: unknown) => caught,
    );
    expect(await refusal(call())).toEqual({
      code: Code.InvalidArgument,
      reason: 'RETURNS_AMBIGUOUS',
      field: 'order_name',
    });
    expect(String(error)).toContain(`the returns ${second.id}, ${first.id}: send a return_id`);
    expect(await arrivalsOf(first)).toEqual([]);

    await bench.end(second, 'cancelled');
    expect((await call()).arrival?.returnId).toBe(first.id);
  });

  test('is unknown alike for every cause', async () => {
    const of = await submitted(1);
    const foreign = { ...of, shopId: await bench.shop() };
    const items = [itemOf(of, 1)];
    expect(await refusal(receive(foreign, { items }))).toEqual(notFound('RETURN'));
    for (const selector of [
      { case: 'orderName', value: present(of.order).name },
      { case: 'trackingNumber', value: 'T-9' },
      { case: 'returnId', value: 987_654_321n },
    ] as const) {
      const call = receive(foreign, { return: selector, items });
      expect(await refusal(call)).toEqual(notFound('RETURN'));
    }
  });
});

describe('a receipt is rejected', () => {
  test.each<[string, (of: Return) => Partial<Receipt>]>([
    ['arrived_at', () => ({ arrivedAt: timestampFromDate(new Date(Date.now() + 86_400_000)) })],
    ['items', () => ({ items: [] })],
    ['items[0].quantity', (of) => ({ items: [itemOf(of, 0)] })],
    ['items[0].damaged_quantity', (of) => ({ items: [itemOf(of, 1, 2)] })],
    ['items[1].line_item_id', (of) => ({ items: [itemOf(of, 1), itemOf(of, 1)] })],
    ['items', (of) => ({ items: Array.from({ length: 251 }, () => itemOf(of, 1)) })],
    ['unexpected[0].quantity', () => ({ unexpected: [{ quantity: 0 }] })],
    ['unexpected[0].note', () => ({ unexpected: [{ quantity: 1, note: 'x'.repeat(2_001) }] })],
    ['idempotency_key', () => ({ idempotencyKey: '' })],
    ['return_id', () => ({ return: { case: undefined } })],
    ['order_name', () => ({ return: { case: 'orderName', value: ' ' } })],
  ])('for its %s', async (field, more) => {
    const of = await submitted(1);
    const call = receive(of, { items: [itemOf(of, 1)], ...more(of) });
    expect(await refusal(call)).toEqual(invalid(field));
    expect(await bench.triggers(of)).toEqual([]);
  });

  test('for an unknown destination', async () => {
    const of = await submitted(1);
    const call = receive(of, { items: [itemOf(of, 1)], destinationId: 99n });
    expect(await refusal(call)).toEqual(notFound('DESTINATION'));
  });

  test('for a line item of another return, and counts nothing', async () => {
    const of = await submitted(1);
    const other = await bench.submit(of.shopId);
    const items = [itemOf(of, 1), itemOf(other, 1)];
    expect(await refusal(receive(of, { items }))).toMatchObject({
      code: Code.NotFound,
      reason: 'LINE_ITEM_NOT_FOUND',
    });
    expect((await bench.read(of)).lineItems[0]).toMatchObject({ arrivedQuantity: 0 });
  });
});

describe('list arrivals', () => {
  test('lists the newest first, as many as fit', async () => {
    const of = await submitted(1);
    for (let nth = 1; nth <= 3; nth += 1) {
      const quantity = nth;
      const unexpected = Array.from({ length: 250 }, () => ({ quantity }));
      await receive(of, { unexpected });
    }
    const listed = await arrivalsOf(of);
    expect(listed.map(({ unexpected }) => unexpected[0]?.quantity)).toEqual([3, 2, 1]);
    expect(timestampDate(present(listed[0]?.arrivedAt)).getTime()).toBeLessThanOrEqual(Date.now());
    await bench.db.pool.query('update arrivals set item_count = 1500 where shop_id = $1', [
      of.shopId,
    ]);
    expect(await arrivalsOf(of)).toHaveLength(1);
  });

  test('shows no other shop what arrived', async () => {
    const of = await submitted(1);
    await receive(of, { items: [itemOf(of, 1)] });
    const foreign = { ...of, shopId: await bench.shop() };
    expect(await refusal(arrivalsOf(foreign))).toEqual(notFound('RETURN'));
  });
});
