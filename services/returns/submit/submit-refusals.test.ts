import { Code } from '@connectrpc/connect';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { Outcome } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { line } from '../../../test/kit/builders.ts';
import { CLOSED_WAREHOUSE } from '../../../test/kit/services/fake-destinations.ts';
import {
  invalid,
  notFound,
  type ReturnsBench,
  startReturnsBench,
  stateForbids,
} from '../../../test/kit/services/returns-bench.ts';
import { newShop } from '../../../test/kit/services/running-service.ts';

let bench: ReturnsBench;
beforeAll(async () => {
  bench = await startReturnsBench();
});
afterAll(() => bench.stop());

describe('a submission is rejected', () => {
  test('for a shop without settings', async () => {
    expect(await bench.submitError(newShop(), {})).toMatchObject({
      code: Code.FailedPrecondition,
      reason: 'SHOP_NOT_CONFIGURED',
    });
  });

  test('with another currency than the shop has, or one that does not exist', async () => {
    const shopId = await bench.shop();
    expect(await bench.submitError(shopId, { currency: 'EUR' })).toEqual(invalid('currency'));
    expect(await bench.submitError(shopId, { presentmentCurrency: 'GBX' })).toEqual(
      invalid('presentment_currency'),
    );
  });

  test('with an unknown or a disabled destination', async () => {
    const shopId = await bench.shop();
    expect(await bench.submitError(shopId, { destinationId: 99n })).toEqual(
      notFound('DESTINATION'),
    );
    expect(await bench.submitError(shopId, { destinationId: CLOSED_WAREHOUSE })).toEqual(
      stateForbids,
    );
  });

  const most = { shop: '600000000000' };
  const exchange = { title: 'Hat', price: most };
  const tooMuch: [string, Parameters<ReturnsBench['submitError']>[1], string][] = [
    ['lines', { lines: [line({ price: most }), line({ price: most })] }, 'lines'],
    [
      'refunds of a line',
      { lines: [line({ price: most, tax: most, refundItem: most, refundTax: most })] },
      'lines',
    ],
    [
      'shipping of lines',
      { lines: [line({ refundShipping: most }), line({ refundShipping: most })] },
      'lines',
    ],
    [
      'a refund',
      { lines: [line({ price: most })], amounts: { creditShipping: most } },
      'amounts.refund',
    ],
    ['exchanges', { outcome: Outcome.UPSELL, exchanges: [exchange, exchange] }, 'exchanges'],
  ];

  test.each(tooMuch)('whose %s add up to more than 10^12', async (_, more, field) => {
    expect(await bench.submitError(await bench.shop(), more)).toEqual(invalid(field));
  });

  const faults: [string, Parameters<ReturnsBench['submitError']>[1], string][] = [
    ['no key', { idempotencyKey: ' ' }, 'idempotency_key'],
    ['no order', { order: undefined }, 'order'],
    ['a nameless order', { order: { providerOrderId: 1n } }, 'order.name'],
    ['an order id of 0', { order: { name: '#1' } }, 'order.provider_order_id'],
    [
      'an id above 2^53-1',
      { order: { name: '#1', providerOrderId: 2n ** 53n } },
      'order.provider_order_id',
    ],
    ['no outcome', { outcome: Outcome.UNSPECIFIED }, 'outcome'],
    ['no lines', { lines: [] }, 'lines'],
    ['251 lines', { lines: Array.from({ length: 251 }, () => line()) }, 'lines'],
    ['no price', { lines: [line({ price: undefined })] }, 'lines[0].price'],
    ['half a price', { lines: [line({ price: { presentment: '1' } })] }, 'lines[0].price.shop'],
    ['three decimals', { lines: [line({ price: { shop: '1.005' } })] }, 'lines[0].price.shop'],
    ['a negative sum', { lines: [line({ tax: { shop: '-1' } })] }, 'lines[0].tax.shop'],
    ['words for a sum', { lines: [line({ tax: { shop: '1e3' } })] }, 'lines[0].tax.shop'],
    [
      'a sum above 10^12',
      { lines: [line({ price: { shop: '1000000000000.01' } })] },
      'lines[0].price.shop',
    ],
    ['a negative total', { lines: [line({ discount: { shop: '21' } })] }, 'lines'],
    ['quantity 0', { lines: [line({ quantity: 0 })] }, 'lines[0].quantity'],
    ['too large a quantity', { lines: [line({ quantity: 1_000_001 })] }, 'lines[0].quantity'],
    ['NUL', { packageReference: 'a\0' }, 'package_reference'],
    ['192 characters', { packageReference: '🧣'.repeat(192) }, 'package_reference'],
    ['a long link', { statusPageUrl: 'x'.repeat(2_049) }, 'status_page_url'],
    ['a blank flag reason', { flagReasons: [' '] }, 'flag_reasons[0]'],
    [
      'no presentment sum where the currencies differ',
      { presentmentCurrency: 'EUR' },
      'lines[0].price.presentment',
    ],
    [
      'different sums in one currency',
      { lines: [line({ price: { shop: '20', presentment: '21' } })] },
      'lines[0].price.presentment',
    ],
    ['another refund', { amounts: { refund: { shop: '19.99' } } }, 'amounts.refund'],
    ['shipping that no line has', { amounts: { shipping: { shop: '1' } } }, 'amounts.shipping'],
    [
      'a tax on shipping that no line has',
      { amounts: { shippingTax: { shop: '1' } } },
      'amounts.shipping_tax',
    ],
    [
      'more tax on shipping than shipping',
      { lines: [line({ refundShipping: { shop: '1' }, refundShippingTax: { shop: '1.01' } })] },
      'lines[0].refund_shipping_tax',
    ],
    [
      'more tax on shipping than shipping in the presentment currency alone',
      {
        presentmentCurrency: 'EUR',
        lines: [
          line({
            price: { shop: '20', presentment: '23' },
            refundShipping: { shop: '2', presentment: '1' },
            refundShippingTax: { shop: '1', presentment: '1.01' },
          }),
        ],
      },
      'lines[0].refund_shipping_tax',
    ],
    ['ordered quantity 0', { lines: [line({ orderedQuantity: 0 })] }, 'lines[0].ordered_quantity'],
    ['a negative refund', { amounts: { handlingFee: { shop: '20.01' } } }, 'amounts.return_credit'],
    ['an exchange without items', { outcome: Outcome.EXCHANGE }, 'outcome'],
    [
      'items without an exchange',
      { exchanges: [{ title: 'Hat', price: { shop: '1' } }] },
      'outcome',
    ],
    ['credit that leaves a refund', { outcome: Outcome.CREDIT }, 'outcome'],
    ['a refund that leaves credit', { amounts: { returnCredit: { shop: '1' } } }, 'outcome'],
    [
      'an exchange that is paid on top of',
      {
        outcome: Outcome.EXCHANGE,
        exchanges: [{ title: 'Hat', price: { shop: '20.01' } }],
        amounts: { returnCredit: { shop: '20' } },
      },
      'outcome',
    ],
  ];

  test.each(faults)('with %s', async (_, more, field) => {
    expect(await bench.submitError(await bench.shop(), more)).toEqual(invalid(field));
  });

  test('with one line twice', async () => {
    const twice = line();
    expect(await bench.submitError(await bench.shop(), { lines: [twice, twice] })).toEqual(
      invalid('lines[1].provider_line_item_id'),
    );
  });

  test('but not for 191 characters beyond the basic plane', async () => {
    const packageReference = '🧣'.repeat(191);
    const submitted = await bench.submit(await bench.shop(), { packageReference });
    expect(submitted.packageReference).toBe(packageReference);
  });
});
