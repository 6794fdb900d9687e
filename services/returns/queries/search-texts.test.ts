import { randomUUID } from 'node:crypto';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import {
  LabelStatus,
  type Return,
  ReturnState,
} from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import {
  SearchReturnsRequest_Archived as Archived,
  type SearchReturnsResponse,
  SearchReturnsRequest_Sort as Sort,
} from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { line, newId } from '../../../test/kit/builders.ts';
import { WAREHOUSE } from '../../../test/kit/services/fake-destinations.ts';
import {
  invalid,
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

const found = async (shopId: bigint, search: { query?: string; sku?: string }) =>
  (await bench.client.searchReturns({ shopId, actor, ...search })).returns.map((one) => one.id);

describe('search returns by a text', () => {
  test('finds by order name, tracking number, e-mail address, or part of a title', async () => {
    const shopId = await bench.shop();
    const one = await bench.submit(shopId, {
      order: { providerOrderId: newId(), name: '#77' },
      customer: { email: 'Ann@Example.com' },
      lines: [line({ title: 'Wool 100% Scarf a_b c\\d' })],
    });
    await bench.submit(shopId, { lines: [line({ title: 'Hat' })] });
    await bench.client.recordLabel({
      shopId,
      actor,
      idempotencyKey: randomUUID(),
      returnId: one.id,
      carrier: 'DHL',
      trackingNumber: 'TRACK-9',
    });
    for (const query of ['#77', 'TRACK-9', 'ann@example.com', '100% sc', 'A_B', 'c\\d']) {
      expect(await found(shopId, { query })).toEqual([one.id]);
    }
    for (const query of ['#7', 'TRACK', 'example.com', 'l_1', 'ool%sc', 'cd']) {
      expect(await found(shopId, { query })).toEqual([]);
    }
  });

  test('finds an order name with and without #', async () => {
    const shopId = await bench.shop();
    const submit = async (name: string) =>
      (await bench.submit(shopId, { order: { providerOrderId: newId(), name } })).id;
    const [marked, plain] = [await submit('#48177'), await submit('EN-5')];
    for (const query of ['48177', '#48177'])
      expect(await found(shopId, { query })).toEqual([marked]);
    for (const query of ['EN-5', '#EN-5']) expect(await found(shopId, { query })).toEqual([plain]);
    for (const query of ['4817', '#']) expect(await found(shopId, { query })).toEqual([]);
  });

  test('finds the number of a return, which each row of the portal shows, with and without #', async () => {
    const shopId = await bench.shop();
    const one = await bench.submit(shopId);
    await bench.submit(shopId);
    for (const query of [`${one.id}`, `#${one.id}`, ` ${one.id} `]) {
      expect(await found(shopId, { query })).toEqual([one.id]);
    }
    expect(await found(await bench.shop(), { query: `${one.id}` })).toEqual([]);
    for (const query of [`0${one.id}`, `##${one.id}`, '9'.repeat(20)]) {
      expect(await found(shopId, { query })).toEqual([]);
    }
  });

  test('finds a whole SKU', async () => {
    const shopId = await bench.shop();
    const one = await bench.submit(shopId, { lines: [line({ sku: 'HAT-7', title: 'Cap' })] });
    await bench.submit(shopId, { lines: [line({ sku: 'HAT-77', title: 'Cap' })] });
    expect(await found(shopId, { query: 'HAT-7' })).toEqual([one.id]);
    expect(await found(shopId, { query: 'HAT-' })).toEqual([]);
  });

  test('finds each text in its composed and decomposed form, with white space around it', async () => {
    const shopId = await bench.shop();
    const texts = {
      name: '#É1',
      title: 'Café mug',
      sku: 'Ü-1',
      lastName: 'Nuñez',
      email: 'ö@example.com',
    };
    const submit = async (form: 'NFC' | 'NFD') => {
      const as = (text: string) => text.normalize(form);
      const { id } = await bench.submit(shopId, {
        order: { providerOrderId: newId(), name: as(texts.name) },
        customer: { email: as(texts.email), lastName: as(texts.lastName) },
        lines: [line({ title: as(texts.title), sku: as(texts.sku) })],
      });
      await bench.client.recordLabel({
        shopId,
        actor,
        idempotencyKey: randomUUID(),
        returnId: id,
        carrier: 'DHL',
        trackingNumber: as('TRÄCK'),
      });
      return id;
    };
    const both = [await submit('NFC'), await submit('NFD')].sort();
    const queries = [...Object.values(texts), 'É1', 'Café M', 'ñez', 'TRÄCK'];
    for (const form of ['NFC', 'NFD'] as const) {
      for (const query of queries) {
        const ids = await found(shopId, { query: ` ${query.normalize(form)} ` });
        expect([form, query, ids.sort()]).toEqual([form, query, both]);
      }
      expect((await found(shopId, { sku: texts.sku.normalize(form) })).sort()).toEqual(both);
    }
  });

  test("finds by a part of the shopper's name", async () => {
    const shopId = await bench.shop();
    const one = await bench.submit(shopId, {
      customer: { firstName: 'Marguerite', lastName: 'De La Croix' },
    });
    const other = await bench.submit(shopId, { customer: { lastName: 'Stone' } });
    await bench.submit(shopId, { customer: {} });
    for (const query of ['marg', 'rite de la', 'La Croix', 'Marguerite De La Croix']) {
      expect(await found(shopId, { query })).toEqual([one.id]);
    }
    expect(await found(shopId, { query: 'stone' })).toEqual([other.id]);
    // Two letters find no name.
    for (const query of ['to', 'Croix Marguerite', '%roi%']) {
      expect(await found(shopId, { query })).toEqual([]);
    }
  });
});

type Search = Omit<Parameters<ReturnsBench['client']['searchReturns']>[0], '$typeName'>;
const list = (shopId: bigint, more: Search = {}): Promise<SearchReturnsResponse> =>
  bench.client.searchReturns({ shopId, actor, summaries: true, ...more });
const idsOf = ({ summaries }: SearchReturnsResponse) => summaries.map(({ id }) => id);
const day = (n: number) => timestampFromDate(new Date(Date.UTC(2026, 0, n)));

async function changed(of: Return): Promise<void> {
  const { shopId, id: returnId } = of;
  await bench.client.recordLabel({
    shopId,
    actor,
    returnId,
    idempotencyKey: randomUUID(),
    carrier: 'DHL',
    trackingNumber: 'TRACK-9',
    status: LabelStatus.IN_TRANSIT,
  });
}

describe('summaries of returns', () => {
  test('have the values of the whole return', async () => {
    const shopId = await bench.shop();
    const submitted = await bench.submit(shopId, {
      destinationId: WAREHOUSE,
      lines: [line(), line()],
      amounts: { handlingFee: { shop: '1.50' } },
    });
    await changed(submitted);
    const whole = await bench.read(submitted);
    const { summaries, returns, total } = await list(shopId);
    const { totals, presentmentTotals } = whole;
    const part = (from: typeof totals) => ({
      total: present(from).total,
      refund: present(from).refund,
      returnCreditTotal: present(from).returnCreditTotal,
      handlingFee: present(from).handlingFee,
    });
    expect([returns, total]).toEqual([[], 0]);
    expect(summaries).toMatchObject([
      {
        id: whole.id,
        order: whole.order,
        state: whole.state,
        type: whole.type,
        outcome: whole.outcome,
        returnMethod: whole.returnMethod,
        currency: 'GBP',
        presentmentCurrency: whole.presentmentCurrency,
        destinationId: WAREHOUSE,
        totals: part(totals),
        presentmentTotals: part(presentmentTotals),
        labelStatus: LabelStatus.IN_TRANSIT,
        carrier: 'DHL',
        trackingNumber: 'TRACK-9',
        createdAt: whole.createdAt,
        updatedAt: whole.updatedAt,
      },
    ]);
    expect(part(totals)).toMatchObject({ handlingFee: '1.50' });
  });

  test('have details and the total if requested, in the same statement', async () => {
    const shopId = await bench.shop();
    const older = await bench.submit(shopId, {
      submittedAt: day(1),
      customer: { email: 'jane@example.com', firstName: 'Jane', lastName: 'Doe' },
      lines: [
        line({ title: 'Shirt', quantity: 2 }),
        line({ title: 'Socks', quantity: 1 }),
        ...[line({ title: 'Hat', quantity: 1 }), line({ title: 'Belt', quantity: 1 })],
      ],
      flagReasons: ['odd'],
    });
    await bench.submit(shopId, { submittedAt: day(2) });
    await bench.db.pool.query(
      'update returns set fraud_reported_at = now() where shop_id = $1 and id = $2',
      [shopId, older.id],
    );
    const first = await list(shopId, { details: true, pageSize: 1 });
    expect([first.summaries.length, first.total]).toEqual([1, 2]);
    const { summaries, total } = await list(shopId, {
      details: true,
      pageSize: 1,
      cursor: first.nextCursor,
    });
    expect(total).toBe(2);
    expect(summaries).toMatchObject([
      {
        id: older.id,
        details: {
          customerFirstName: 'Jane',
          customerLastName: 'Doe',
          customerEmail: 'jane@example.com',
          units: 5,
          titles: ['Shirt', 'Socks', 'Hat'],
          flagReasons: ['odd'],
          fraudReported: true,
        },
      },
    ]);
    const none = await list(await bench.shop(), { details: true });
    expect([none.summaries, none.total]).toEqual([[], 0]);
    expect((await list(shopId)).summaries[0]?.details).toBeUndefined();
  });

  test('omit archived returns unless requested', async () => {
    const shopId = await bench.shop();
    const closed = await bench.submit(shopId, { submittedAt: day(1) });
    await bench.end(closed, 'closed');
    const open = await bench.submit(shopId, { submittedAt: day(2) });
    const ids = async (more: Search) => idsOf(await list(shopId, more));
    expect(await ids({})).toEqual([open.id]);
    expect(await ids({ archived: Archived.INCLUDE })).toEqual([open.id, closed.id]);
    expect(await ids({ archived: Archived.ONLY })).toEqual([closed.id]);
    expect(await ids({ states: [ReturnState.CLOSED] })).toEqual([closed.id]);
    const [states, archived] = [[ReturnState.CLOSED], Archived.EXCLUDE];
    expect(await ids({ states, archived })).toEqual([]);
  });

  test.each([
    [Sort.CREATED_DESC, [3, 2, 1, 0]],
    [Sort.CREATED_ASC, [0, 1, 2, 3]],
    [Sort.UPDATED_DESC, [0, 2, 3, 1]],
    [Sort.UPDATED_ASC, [1, 3, 2, 0]],
  ])('are sorted, page by page, over states (%s)', async (sort, order) => {
    const shopId = await bench.shop();
    const made: Return[] = [];
    for (const n of [1, 2, 3, 4]) {
      const flagReasons = n % 2 === 0 ? ['x'] : [];
      made.push(await bench.submit(shopId, { submittedAt: day(n), flagReasons }));
    }
    for (const index of [1, 3, 2, 0]) await changed(present(made[index]));
    const seen: bigint[] = [];
    let cursor = '';
    do {
      const page = await list(shopId, { pageSize: 1, cursor, sort });
      seen.push(...idsOf(page));
      cursor = page.nextCursor;
    } while (cursor !== '');
    expect(seen).toEqual(order.map((index) => made[index]?.id));
  });

  test('a walk by the last change sees a return that changes during it', async () => {
    const shopId = await bench.shop();
    const [first, second, third] = [
      await bench.submit(shopId),
      await bench.submit(shopId),
      await bench.submit(shopId),
    ];
    const page = await list(shopId, { pageSize: 1, sort: Sort.UPDATED_ASC });
    expect(idsOf(page)).toEqual([first.id]);
    await changed(second);
    const rest = await list(shopId, { sort: Sort.UPDATED_ASC, cursor: page.nextCursor });
    expect(idsOf(rest)).toEqual([third.id, second.id]);
  });

  test('a return that is submitted between two pages moves no other', async () => {
    const shopId = await bench.shop();
    const made = [await bench.submit(shopId), await bench.submit(shopId)];
    const page = await list(shopId, { pageSize: 1 });
    await bench.submit(shopId);
    const rest = await list(shopId, { cursor: page.nextCursor });
    expect([...idsOf(page), ...idsOf(rest)]).toEqual(made.map(({ id }) => id).reverse());
  });

  test('reject a cursor of another order', async () => {
    const shopId = await bench.shop();
    for (const _ of [1, 2]) await bench.submit(shopId);
    const { nextCursor } = await list(shopId, { pageSize: 1, sort: Sort.UPDATED_ASC });
    for (const sort of [Sort.UPDATED_DESC, Sort.CREATED_ASC, Sort.UNSPECIFIED]) {
      expect(await refusal(list(shopId, { cursor: nextCursor, sort }))).toEqual(invalid('cursor'));
    }
    const usual = await list(shopId, { pageSize: 1 });
    const ascending = { cursor: usual.nextCursor, sort: Sort.CREATED_ASC };
    expect(await refusal(list(shopId, ascending))).toEqual(invalid('cursor'));
  });

  test('reject a cursor of other filters, and say so', async () => {
    const shopId = await bench.shop();
    for (const _ of [1, 2, 3]) await bench.submit(shopId);
    const filter = { states: [ReturnState.OPEN], createdFrom: day(1) };
    const { nextCursor: cursor } = await list(shopId, { ...filter, pageSize: 1 });
    const others = [
      {},
      { ...filter, states: [ReturnState.OPEN, ReturnState.REVIEW] },
      { ...filter, createdFrom: day(2) },
      { ...filter, archived: Archived.INCLUDE },
      { ...filter, query: '#1001' },
    ];
    for (const other of others) {
      await expect(list(shopId, { ...other, cursor })).rejects.toThrow(
        'cursor belongs to a list with other filters or another order',
      );
    }
    expect(idsOf(await list(shopId, { ...filter, cursor, pageSize: 2 }))).toHaveLength(2);
  });
});
