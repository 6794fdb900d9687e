import { create } from '@bufbuild/protobuf';
import { describe, expect, test } from '@jest/globals';
import { ReturnSchema } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { planSteps } from './plan.ts';

function details(
  presentmentTotals: Partial<Record<'exchangeTotal' | 'giftCard' | 'refund', string>>,
) {
  const zero = { exchangeTotal: '0.00', giftCard: '0.00', refund: '0.00' };
  return create(ReturnSchema, {
    id: 41n,
    presentmentCurrency: 'EUR',
    presentmentTotals: { ...zero, ...presentmentTotals },
  });
}
const provider = { nonce: 'f00d', giftCardsAreExternal: false, paidMinor: 0n, hasRestock: false };

describe('the plan of processing', () => {
  test('places the exchange order first, then the gift card, then the refund', () => {
    const all = details({ exchangeTotal: '30.00', giftCard: '5.00', refund: '1.20' });
    expect(planSteps({ ...provider, details: all })).toEqual([
      {
        kind: 'exchange_order',
        key: 'rms:return:41:f00d:exchange_order',
        amount: '30.00',
        currency: 'EUR',
      },
      { kind: 'gift_card', key: 'rms:return:41:f00d:gift_card', amount: '5.00', currency: 'EUR' },
      { kind: 'refund', key: 'rms:return:41:f00d:refund', amount: '1.20', currency: 'EUR' },
    ]);
  });

  test('restocks goods after the money, also when no money moves', () => {
    const key = 'rms:return:41:f00d:restock';
    const restock = { kind: 'restock', key, amount: '0', currency: 'EUR' };
    const steps = planSteps({
      ...provider,
      hasRestock: true,
      details: details({ refund: '1.20' }),
    });
    expect(steps.map(({ kind }) => kind)).toEqual(['refund', 'restock']);
    expect(planSteps({ ...provider, hasRestock: true, details: details({}) })).toEqual([restock]);
  });

  test('keeps the keys of a return that has no random value', () => {
    const steps = planSteps({ ...provider, nonce: null, details: details({ refund: '1.20' }) });
    expect(steps.map(({ key }) => key)).toEqual(['rms:return:41:refund']);
  });

  test('skips an effect of zero', () => {
    expect(planSteps({ ...provider, details: details({}) })).toEqual([]);
  });

  test('leaves gift cards to the external provider', () => {
    const card = details({ giftCard: '5.00' });
    expect(planSteps({ ...provider, details: card, giftCardsAreExternal: true })).toEqual([]);
  });

  test('refunds only what an instant refund has not paid, and never a negative amount', () => {
    const refund = details({ refund: '10.00' });
    expect(planSteps({ ...provider, details: refund, paidMinor: 350n })).toMatchObject([
      { kind: 'refund', amount: '6.50' },
    ]);
    expect(planSteps({ ...provider, details: refund, paidMinor: 1_000n })).toEqual([]);
    expect(planSteps({ ...provider, details: refund, paidMinor: 5_000n })).toEqual([]);
  });
});
