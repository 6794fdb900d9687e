import { create } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import {
  type GetPolicyResponse,
  GetPolicyResponseSchema,
  AutomaticProcessing_Moment as Moment,
  ReturnWindow_Start as Start,
} from '../../../proto/gen/rms/returns/v1/policy_pb.ts';
import { Outcome, ReturnMethod } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { policyView } from '../views/policy.ts';
import type { OperationExample } from './example.ts';

/** A policy that has every part. */
export function examplePolicy(): GetPolicyResponse {
  return create(GetPolicyResponseSchema, {
    version: 3n,
    updatedAt: timestampFromDate(new Date('2026-11-02T09:30:00Z')),
    policy: {
      window: { days: 30, from: Start.DELIVERED },
      finalSale: { skus: ['UNDERWEAR-*'], tags: ['final-sale'] },
      exceptions: [
        {
          items: { productIds: [4_001n] },
          window: { days: 100, from: Start.DELIVERED },
          outcomes: [Outcome.EXCHANGE, Outcome.CREDIT],
        },
      ],
      countries: ['AT', 'DE'],
      outcomes: [Outcome.EXCHANGE, Outcome.REFUND],
      returnMethods: [ReturnMethod.MAIL, ReturnMethod.DROP_OFF],
      reasons: [
        { code: 'too_small', parent: 'size', label: { de: 'Zu klein', en: 'Too small' } },
        { code: 'defect', label: { en: 'It is defective' }, asksComment: true, waivesFee: true },
      ],
      fees: [
        { returnMethod: ReturnMethod.MAIL, fee: { case: 'amount', value: '4.95' } },
        { outcome: Outcome.REFUND, fee: { case: 'percentage', value: '2.5' } },
      ],
      review: { valueAbove: '500.00', reasons: ['defect'], returnsAbove: 3, returnsDays: 30 },
      process: { moment: Moment.ARRIVED, upTo: '200.00' },
    },
  });
}

export const POLICY_EXAMPLES = {
  getPolicy: { response: policyView(examplePolicy()) },
} satisfies Record<string, OperationExample>;
