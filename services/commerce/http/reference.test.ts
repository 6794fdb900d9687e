import { mkdtempSync, rmSync } from 'node:fs';
import type { Server } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { createEndpoint } from '../../../deploy/local/commerce/endpoint.ts';
import { type Ledger, openLedger } from '../../../deploy/local/commerce/ledger.ts';
import { effectRequest as request } from '../../../test/kit/commerce/effect-request.ts';
import { newSecret, signingKeyOf } from '../../platform/outbound/signature.ts';
import { createHttpCommerce } from './adapter.ts';
import { type CommerceClient, createCommerceClient } from './client.ts';

const secret = newSecret();
const keys = [signingKeyOf(secret)];
const policy = { allowedOrigins: ['http://127.0.0.1:*'], stackPorts: () => [] };
const never = new AbortController().signal;

let client: CommerceClient;
beforeAll(() => {
  client = createCommerceClient({ policy });
});
afterAll(() => client.close());

/** As in docs/commerce.md. */
const ORDER = {
  id: 445,
  name: '#1001',
  currency: 'GBP',
  presentment_currency: 'JPY',
  lines: [
    {
      line_item_id: 9001,
      title: 'Mug',
      sku: 'MUG-1',
      product_id: 3,
      variant_id: null,
      quantity: 2,
      returnable: 1,
      unit_price: { shop: '10.00', presentment: '1550' },
    },
  ],
};

const commerceAt = (url: string) => createHttpCommerce({ client, url, keys, sandbox: false });

/** An order of three mugs, with totals. */
const WITH_TOTALS = {
  ...ORDER,
  id: 446,
  name: '#1003',
  lines: [
    {
      ...ORDER.lines[0],
      line_item_id: 9002,
      quantity: 3,
      returnable: 3,
      unit_price: undefined,
      paid: { total: { shop: '20.00', presentment: '3100' } },
      left: { units: 3, total: { shop: '20.00', presentment: '3100' } },
    },
  ],
};

describe('an endpoint like the reference', () => {
  test('begins no work on a request that was recorded 45 s ago', async () => {
    const about = request('refund');
    const late = { ...about, recordedAtMs: Date.now() - 45_000 };
    await expect(commerceAt(url).create(late, never)).rejects.toMatchObject({ kind: 'passing' });
    expect(await commerceAt(url).find(about, never)).toBeUndefined();
  });

  let folder: string;
  let ledger: Ledger;
  let server: Server;
  let url: string;
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'rms-commerce-'));
    ledger = openLedger(join(folder, 'ledger.jsonl'));
    server = createEndpoint({
      secrets: [newSecret(), secret],
      ledger,
      orders: [ORDER, WITH_TOTALS],
    }).listen(0, '127.0.0.1');
    await new Promise((resolve) => server.once('listening', resolve));
    const address = server.address();
    if (address === null || typeof address === 'string') throw new Error('no port');
    url = `http://127.0.0.1:${address.port}/`;
  });
  afterAll(() => {
    server.closeAllConnections();
    server.close();
    ledger.close();
    rmSync(folder, { recursive: true });
  });

  test('finds an order by its name', async () => {
    const find = (name: string) => commerceAt(url).lookUp?.({ shopId: 7n, name }, never);
    expect(await find('#1001')).toEqual({
      id: 445n,
      name: '#1001',
      currencies: { shop: 'GBP', presentment: 'JPY' },
      lines: [
        {
          id: 9001n,
          title: 'Mug',
          sku: 'MUG-1',
          productId: 3n,
          variantId: undefined,
          quantity: 2,
          returnable: 1,
          paid: {
            shop: { price: 2_000n, discount: 0n, tax: 0n },
            presentment: { price: 3_100n, discount: 0n, tax: 0n },
          },
          left: { units: 1 },
        },
      ],
    });
    expect(await find('#1002')).toBeUndefined();
  });

  test('lowers what is left of a line by refunds of goods, and not by their shipping', async () => {
    const line = { providerLineItemId: 9002n, sku: 'MUG-1', shipping: '310' };
    const left = async () => {
      const found = await commerceAt(url).lookUp?.({ shopId: 7n, name: '#1003' }, never);
      return found?.lines.map(({ returnable, left: { units, totals } }) => [
        [returnable, units],
        totals,
      ]);
    };
    const refund = (quantity: number, paid: string) =>
      commerceAt(url).create(
        request('refund', {
          providerOrderId: 446n,
          currency: 'JPY',
          lines: [{ ...line, quantity, refund: paid }],
        }),
        never,
      );
    await refund(1, '1343');
    expect(await left()).toEqual([[[2, 2], { shop: 1_334n, presentment: 2_067n }]]);
    await refund(2, '2377');
    expect(await left()).toEqual([[[0, 0], { shop: 0n, presentment: 0n }]]);
  });

  test('confirms what the shopper must still pay of an exchange order', async () => {
    const funding = { paidByReturn: '10.00', due: '2.50', paymentReference: '' };
    const asked = request('exchange_order', { funding });
    const made = await commerceAt(url).create(asked, never);
    expect(made).toMatchObject({ amount: '12.50', due: '2.50' });
    expect(await commerceAt(url).find(asked, never)).toEqual(made);
    const data = { amount: '12.50', paid_by_return: '10.00', due: '2.50' };
    expect(ledger.all().at(-1)).toMatchObject({ data });
  });

  test('cancels an exchange order that it made, once, and no other', async () => {
    const order = await commerceAt(url).create(request('exchange_order'), never);
    const orderToCancel = { id: BigInt(order.id), name: order.name };
    const asked = request('order_cancel', { amount: '0', orderToCancel });
    const made = await commerceAt(url).create(asked, never);
    expect(made).toMatchObject({ amount: '0', name: '' });
    expect(await commerceAt(url).create(asked, never)).toEqual(made);
    expect(await commerceAt(url).find(asked, never)).toEqual(made);
    const other = { ...asked, key: 'rms:other', orderToCancel: { id: 1n, name: '' } };
    await expect(commerceAt(url).create(other, never)).rejects.toMatchObject({ kind: 'final' });
  });

  test.each(['exchange_order', 'gift_card', 'refund'] as const)(
    'makes one %s per key',
    async (kind) => {
      const asked = request(kind);
      const made = await Promise.all(
        Array.from({ length: 3 }, () => commerceAt(url).create(asked, never)),
      );
      expect(new Set(made.map(({ id }) => id)).size).toBe(1);
      expect(made[0]).toMatchObject({ amount: '12.50', currency: 'GBP' });
      expect(ledger.all().filter(({ key }) => key === asked.key)).toHaveLength(1);
      expect(await commerceAt(url).find(asked, never)).toEqual(made[0]);
    },
  );

  test('restocks once per key, without an amount', async () => {
    const line = { lineItemId: 1n, providerLineItemId: 3n, variantId: 0n, sku: 'S' };
    const asked = request('restock', {
      amount: '0',
      stock: [{ ...line, quantity: 2, locationId: 70n }],
    });
    const made = await commerceAt(url).create(asked, never);
    expect(await commerceAt(url).create(asked, never)).toEqual(made);
    expect(await commerceAt(url).find(asked, never)).toEqual(made);
    expect(made).toMatchObject({ amount: '0', currency: 'GBP', name: '', gateway: '' });
    const data = expect.objectContaining({
      lines: [{ line_item_id: 3, variant_id: 0, sku: 'S', quantity: 2, location_id: 70 }],
    });
    const entries = ledger.all().filter(({ key }) => key === asked.key);
    expect(entries).toMatchObject([{ kind: 'restock', data }]);
    const day = { from: new Date(Date.now() - 60_000), to: new Date(Date.now() + 60_000) };
    const page = await commerceAt(url).list({ shopId: 7n, ...day, cursor: '' }, never);
    expect(page?.effects.find(({ key }) => key === asked.key)).toMatchObject({
      kind: 'restock',
      id: made.id,
      amount: '0',
      currency: '',
    });
  });

  test('rejects a restock without lines', async () => {
    const failed = commerceAt(url).create(request('restock', { amount: '0' }), never);
    await expect(failed).rejects.toMatchObject({ kind: 'final' });
  });

  test('knows no effect of a key that was never used', async () => {
    expect(await commerceAt(url).find(request(), never)).toBeUndefined();
  });

  test('keeps its effects when it is started again', async () => {
    const asked = request();
    const { id } = await commerceAt(url).create(asked, never);
    const again = openLedger(join(folder, 'ledger.jsonl'));
    expect(
      again.find({ shop_id: 7, sandbox: false, kind: 'refund', key: asked.key }),
    ).toMatchObject({ id: Number(id) });
    again.close();
  });

  test('rejects a request that another secret has signed', async () => {
    const asked = request();
    const stranger = [signingKeyOf(newSecret())];
    const foreign = createHttpCommerce({ client, url, keys: stranger, sandbox: false });
    await expect(foreign.create(asked, never)).rejects.toMatchObject({ kind: 'passing' });
    expect(await commerceAt(url).find(asked, never)).toBeUndefined();
  });
});
