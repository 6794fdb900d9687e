import { Code } from '@connectrpc/connect';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import {
  LineOutcome,
  Outcome,
  type Return,
  UpsellPayment,
} from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { line } from '../../../test/kit/builders.ts';
import {
  firstLine,
  invalid,
  notFound,
  present,
  type ReturnsBench,
  startReturnsBench,
  stateForbids,
} from '../../../test/kit/services/returns-bench.ts';
import { actor, refusal } from '../../../test/kit/services/running-service.ts';

let bench: ReturnsBench;
beforeAll(async () => {
  bench = await startReturnsBench();
});
afterAll(() => bench.stop());

type Edit = Parameters<ReturnsBench['client']['editReturn']>[0];

function request(of: Return, more: Omit<Edit, '$typeName'>) {
  return { shopId: of.shopId, actor, returnId: of.id, expectedRevision: of.revision, ...more };
}

async function edit(of: Return, more: Omit<Edit, '$typeName'>): Promise<Return> {
  return present((await bench.client.editReturn(request(of, more))).return);
}

const refused = (of: Return, more: Omit<Edit, '$typeName'>) =>
  refusal(bench.client.editReturn(request(of, more)));

const conflict = {
  code: Code.Aborted,
  reason: 'REVISION_CONFLICT',
  field: 'expected_revision',
};

describe('edit return', () => {
  test('changes only the fields of the request, and computes the refund again', async () => {
    const submitted = await bench.submit(await bench.shop(), {
      lines: [line({ tax: { shop: '2' }, reason: 'too small' }), line()],
      amounts: { handlingFee: { shop: '1.50' } },
    });
    const edited = await edit(submitted, {
      changes: [
        {
          lineItemId: firstLine(submitted),
          quantity: 1,
          price: { shop: '9.99' },
          outcome: LineOutcome.REFUND,
        },
      ],
    });
    expect(edited.lineItems[0]).toMatchObject({
      quantity: 1,
      reason: 'too small',
      outcome: LineOutcome.REFUND,
      amounts: { price: '9.99', tax: '2.00' },
    });
    expect(edited.lineItems[1]).toEqual(submitted.lineItems[1]);
    expect(edited.totals).toMatchObject({ returnTotal: '31.99', refund: '30.49' });
    expect(edited.revision).toBe(2n);
    expect(edited.editedAt).toBeDefined();
    expect(await bench.triggers(edited)).toEqual(['return.updated']);
    expect(await bench.read(edited)).toEqual(edited);
  });

  test('changes a refund to an exchange when outcome and amounts agree', async () => {
    const submitted = await bench.submit(await bench.shop(), {
      outcome: Outcome.EXCHANGE_REFUND,
      exchanges: [{ title: 'Hat', price: { shop: '5' } }],
      amounts: { returnCredit: { shop: '5' } },
    });
    const edited = await edit(submitted, {
      outcome: Outcome.EXCHANGE_CREDIT,
      amounts: { returnCredit: { shop: '20' } },
    });
    expect(edited.totals).toMatchObject({ refund: '0.00', giftCard: '15.00', upsell: '0.00' });
  });

  test('keeps the upsell that the shopper has paid in advance', async () => {
    const submitted = await bench.submit(await bench.shop(), {
      outcome: Outcome.UPSELL,
      exchanges: [{ title: 'Coat', price: { shop: '25' } }],
      amounts: { returnCredit: { shop: '20' } },
      upsellPayment: UpsellPayment.PREPAID,
      upsellPaymentReference: 'pay_77',
    });
    const amounts = { returnCredit: { shop: '18' }, handlingFee: { shop: '2' } };
    expect(await refused(submitted, { amounts })).toEqual(invalid('amounts.return_credit'));
    const changes = [{ lineItemId: firstLine(submitted), reason: 'too small' }];
    expect((await edit(submitted, { changes })).totals?.upsell).toBe('5.00');
  });

  test('removes a line, frees it, and refunds the rest', async () => {
    const [kept, dropped] = [line(), line()];
    const submitted = await bench.submit(await bench.shop(), { lines: [kept, dropped] });
    const lineItemId = present(submitted.lineItems[1]).lineItemId;
    const edited = await edit(submitted, { changes: [{ lineItemId, remove: true }] });
    expect(edited.lineItems).toHaveLength(1);
    expect(edited.totals).toMatchObject({ returnTotal: '20.00', refund: '20.00' });
    const again = await bench.submit(submitted.shopId, { lines: [dropped] });
    expect(again.lineItems).toHaveLength(1);
  });

  const shipped = () => ({
    lines: [
      line({ price: { shop: '10' }, refundShipping: { shop: '5' } }),
      line({ price: { shop: '10' } }),
    ],
  });

  test('removes the shipping of a line with the line', async () => {
    const submitted = await bench.submit(await bench.shop(), shipped());
    expect(submitted.totals).toMatchObject({ returnShippingTotal: '5.00', refund: '25.00' });
    const changes = [{ lineItemId: firstLine(submitted), remove: true }];
    const edited = await edit(submitted, { changes });
    expect(edited.totals).toMatchObject({ returnShippingTotal: '0.00', refund: '10.00' });
  });

  test('accepts shipping of the return only as the total of its line items', async () => {
    const submitted = await bench.submit(await bench.shop(), shipped());
    const changes = [{ lineItemId: firstLine(submitted), refundShipping: { shop: '9' } }];
    const amounts = { shipping: { shop: '5' } };
    expect(await refused(submitted, { changes, amounts })).toEqual(invalid('amounts.shipping'));
    const edited = await edit(submitted, { changes, amounts: { shipping: { shop: '9' } } });
    expect(edited.totals).toMatchObject({ returnShippingTotal: '9.00', refund: '29.00' });
  });

  test('rejects all but one of parallel edits of one revision', async () => {
    const submitted = await bench.submit(await bench.shop());
    const changes = [{ lineItemId: firstLine(submitted), quantity: 3 }];
    const calls = await Promise.allSettled([1, 2, 3].map(() => edit(submitted, { changes })));
    expect(calls.filter((call) => call.status === 'fulfilled')).toHaveLength(1);
    expect(await refused(submitted, { changes })).toEqual(conflict);
    expect(await bench.triggers(submitted)).toEqual(['return.updated']);
  });

  test('rejects an empty edit, a line of another return, a line twice, and the removal of the last line', async () => {
    const submitted = await bench.submit(await bench.shop());
    const lineItemId = firstLine(submitted);
    expect(await refused(submitted, {})).toEqual(invalid('changes'));
    expect(await refused(submitted, { changes: [{ lineItemId: 1n << 40n }] })).toEqual(
      notFound('LINE_ITEM'),
    );
    expect(await refused(submitted, { changes: [{ lineItemId }, { lineItemId }] })).toEqual(
      invalid('changes[1].line_item_id'),
    );
    expect(await refused(submitted, { changes: [{ lineItemId, remove: true }] })).toEqual(
      invalid('changes'),
    );
  });

  test('rejects invalid amounts, and changes nothing', async () => {
    const submitted = await bench.submit(await bench.shop());
    const lineItemId = firstLine(submitted);
    expect(
      await refused(submitted, { changes: [{ lineItemId, price: { shop: '1.001' } }] }),
    ).toEqual(invalid('changes[0].price.shop'));
    expect(await refused(submitted, { outcome: Outcome.CREDIT })).toEqual(invalid('outcome'));
    expect(await bench.read(submitted)).toEqual(submitted);
    expect(await bench.triggers(submitted)).toEqual([]);
  });

  test('rejects lines that add up to more than 10^12', async () => {
    const submitted = await bench.submit(await bench.shop(), { lines: [line(), line()] });
    const price = { shop: '600000000000' };
    const changes = submitted.lineItems.map(({ lineItemId }) => ({ lineItemId, price }));
    expect(await refused(submitted, { changes })).toEqual(invalid('lines'));
  });

  test.each(['closed', 'cancelled', 'expired'] as const)('rejects a %s return', async (state) => {
    const submitted = await bench.submit(await bench.shop());
    await bench.end(submitted, state);
    expect(await refused(submitted, { outcome: Outcome.REFUND })).toEqual(stateForbids);
  });

  test('rejects a return that is queued for processing', async () => {
    const submitted = await bench.submit(await bench.shop());
    await bench.queue(submitted);
    expect(await refused(submitted, { outcome: Outcome.REFUND })).toEqual(stateForbids);
  });
});

describe('the table of returns', () => {
  test('enforces the rule of refunds by constraints, in both currencies', async () => {
    const submitted = await bench.submit(await bench.shop());
    for (const column of ['refund', 'presentment_return_credit']) {
      const write = bench.db.pool.query(
        `update returns set ${column} = ${column} + 1 where shop_id = $1 and id = $2`,
        [submitted.shopId, submitted.id],
      );
      await expect(write).rejects.toThrow('refund_rule');
    }
  });
});
