import { create } from '@bufbuild/protobuf';
import { expect, test } from '@jest/globals';
import { GetPolicyResponseSchema } from '../../../proto/gen/rms/returns/v1/policy_pb.ts';
import { examplePolicy } from '../examples/policy.ts';
import { policy as schema } from '../resources/policy.ts';
import { policyView } from './policy.ts';

test('a shop without a policy allows everything, and has every key', () => {
  const selection = { product_ids: [], skus: [], tags: [] };
  expect(policyView(create(GetPolicyResponseSchema))).toEqual({
    version: 0,
    updated_at: null,
    window: { days: null, from: 'delivered' },
    final_sale: selection,
    exceptions: [],
    countries: [],
    outcomes: [],
    return_methods: [],
    reasons: [],
    fees: [],
    review: {
      value_above: null,
      reasons: [],
      returns_above: null,
      returns_days: null,
      fraud_report: false,
      missing: false,
    },
    process: { moment: 'manual', up_to: null },
    refund_basis: 'announced',
    withdrawals: 'manual',
  });
});

test('a policy has the words of the interface', () => {
  const view = schema.parse(policyView(examplePolicy()));
  expect(view).toMatchObject({
    version: 3,
    updated_at: '2026-11-02T09:30:00+00:00',
    window: { days: 30, from: 'delivered' },
    final_sale: { skus: ['UNDERWEAR-*'], tags: ['final-sale'] },
    exceptions: [{ product_ids: [4_001], window: { days: 100 }, outcomes: ['exchange', 'credit'] }],
    return_methods: ['mail', 'drop_off'],
    reasons: [
      { code: 'too_small', parent: 'size', label: { de: 'Zu klein', en: 'Too small' } },
      { code: 'defect', parent: null, asks_comment: true, waives_fee: true },
    ],
    fees: [
      { return_method: 'mail', outcome: null, amount: '4.95', percentage: null },
      { return_method: null, outcome: 'refund', amount: null, percentage: '2.5' },
    ],
    review: { value_above: '500.00', returns_above: 3, returns_days: 30 },
    process: { moment: 'arrived', up_to: '200.00' },
  });
});
