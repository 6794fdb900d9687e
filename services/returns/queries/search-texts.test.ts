import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { line, newId } from '../../../test/kit/builders.ts';
import { type ReturnsBench, startReturnsBench } from '../../../test/kit/services/returns-bench.ts';
import { actor } from '../../../test/kit/services/running-service.ts';

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
