import { Code } from '@connectrpc/connect';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { ReturnState } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { line, newId, returnRequest } from '../../../test/kit/builders.ts';
import { type ReturnsBench, startReturnsBench } from '../../../test/kit/services/returns-bench.ts';
import { actor, refusal } from '../../../test/kit/services/running-service.ts';

let bench: ReturnsBench;
beforeAll(async () => {
  bench = await startReturnsBench();
});
afterAll(() => bench.stop());

const conflict = (field: string) => ({
  code: Code.AlreadyExists,
  reason: 'IDEMPOTENCY_CONFLICT',
  field,
});

/** A submission of one line item; `with` changes it, under the same key. */
async function submission() {
  const shopId = await bench.shop();
  const order = { providerOrderId: newId(), name: 'CAF\u00c9-1' };
  const item = line({ sku: 'x\u00e9', lineItemTitle: 'Caf\ufffd', title: 'Caf\ufffd' });
  const customer = { email: 'ann@example.com', lastName: 'Ann', address: { country: 'C\ufffdte' } };
  const first = returnRequest(shopId, { order, lines: [item], customer });
  return {
    shopId,
    first,
    item,
    again: (more: object) => bench.client.submitReturn({ ...first, ...more }),
  };
}

describe('a submission with the key of an earlier one', () => {
  test('is the same when its identities have another spelling, and they stay as sent', async () => {
    const { first, item, again } = await submission();
    const made = await again({});
    const spelled = {
      order: { ...first.order, name: ' CAFE\u0301-1\u00a0' },
      lines: [{ ...item, sku: 'xe\u0301 ' }],
    };
    const repeat = await again(spelled);
    expect(repeat).toEqual({ ...made, repeated: true });
    expect(repeat.return?.order?.name).toBe('CAF\u00c9-1');
    const other = { order: { ...first.order, name: 'caf\u00e9-1' } };
    expect(await refusal(again(other))).toEqual(conflict('idempotency_key'));
  });

  const correction = (item: object) => ({
    correctTexts: true,
    lines: [{ ...item, lineItemTitle: 'Caf\u00e9', title: 'Caf\u00e9' }],
    customer: { email: 'ann@example.com', lastName: 'Ann', address: { country: 'C\u00f4te' } },
  });

  test('corrects the texts of the return only if it asks for that, once, in any state', async () => {
    const { shopId, item, again } = await submission();
    const made = await again({});
    const corrected = correction(item);
    expect(await refusal(again({ ...corrected, correctTexts: false }))).toEqual(
      conflict('idempotency_key'),
    );
    const returnId = made.return?.id ?? 0n;
    await bench.client.cancelReturn({ shopId, actor, returnId });
    expect(await again(corrected)).toMatchObject({
      repeated: true,
      corrected: true,
      return: {
        state: ReturnState.CANCELLED,
        lineItems: [{ lineItemTitle: 'Caf\u00e9', title: 'Caf\u00e9' }],
        customer: { lastName: 'Ann', address: { country: 'C\u00f4te' } },
      },
    });
    const spelled = { ...corrected.customer, lastName: 'Ann ' };
    expect(await again({ ...corrected, customer: spelled })).toMatchObject({
      repeated: true,
      corrected: false,
    });
    const { entries } = await bench.client.getTimeline({ shopId, actor, returnId });
    expect(entries.map(({ kind }) => kind)).toEqual([
      'return.corrected',
      'return.cancelled',
      'return.submitted',
    ]);
  });

  test('names each difference that is no text, and changes nothing then', async () => {
    const { item, again } = await submission();
    const made = await again({});
    const [changed] = correction(item).lines;
    const wrong = {
      correctTexts: true,
      lines: [{ ...changed, quantity: 7, sku: 'y', price: { shop: '99' } }],
    };
    await expect(again(wrong)).rejects.toThrow(
      'other content: lines[0].sku, lines[0].quantity, lines[0].price',
    );
    expect(await refusal(again(wrong))).toEqual(conflict('lines[0].sku'));
    expect((await again({})).return).toEqual(made.return);
  });

  test('brings back nothing that a redaction removed', async () => {
    const { shopId, item, again } = await submission();
    await again({});
    await bench.client.redactCustomer({ shopId, actor, email: 'ann@example.com' });
    const { corrected, return: after } = await again(correction(item));
    expect([corrected, after?.lineItems[0]?.title]).toEqual([true, 'Caf\u00e9']);
    expect(after?.customer?.lastName ?? '').toBe('');
    expect(after?.customer?.address).toBeUndefined();
  });
});
