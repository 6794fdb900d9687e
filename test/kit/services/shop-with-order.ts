import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { Code } from '@connectrpc/connect';
import type pg from 'pg';
import { ErrorReason } from '../../../proto/gen/rms/common/v1/error_pb.ts';
import {
  type Ineligibility_Code,
  type PolicySchema,
  UpdatePolicyRequestSchema,
} from '../../../proto/gen/rms/returns/v1/policy_pb.ts';
import { Outcome, PolicyUse } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { createEmbeddedCommerce } from '../../../services/commerce/embedded.ts';
import type { CommerceProvider, FoundOrder } from '../../../services/commerce/provider.ts';
import { updatePolicy } from '../../../services/returns/policy/change-policy.ts';
import { getEligibility } from '../../../services/returns/policy/get-eligibility.ts';
import { submitReturn } from '../../../services/returns/submit/submit.ts';
import { returnRequest, type SubmissionPart, submission } from '../builders.ts';
import { hat, mug, ORDER, sold } from './look-up.ts';
import { actor, submitDeps } from './processing.ts';

// Orders that a shop's platform finds, and submissions of them by the shop's policy.

const DAY_MS = 86_400_000;
/** 3 mugs of which 2 may come back, a hat alike, and a gift card, in pounds and yen. */
export const order: FoundOrder = {
  ...ORDER,
  email: 'Ada@Example.com',
  shippingCountry: 'GB',
  deliveredAt: new Date(Date.now() - 10 * DAY_MS),
  lines: [
    {
      ...{ ...mug, kind: 'product', tags: ['kitchen'], shipped: 2, variantTitle: 'Blue' },
      variants: [
        { variantId: 6n, sku: 'MUG-G', title: 'Gold', price: 1_200n, tax: 100n },
        { variantId: 7n, sku: 'MUG-W', title: 'White', price: 650n, tax: 50n },
      ],
    },
    { ...hat, kind: 'product' },
    { ...sold, kind: 'gift_card' },
  ],
};

type LookUp = NonNullable<CommerceProvider['lookUp']>;

export const notEligible = (code: Ineligibility_Code, id = 9001n) => ({
  code: Code.FailedPrecondition,
  reason: ErrorReason.NOT_ELIGIBLE,
  detail: { value: { lines: [{ providerLineItemId: id, code }] } },
});
export const invalid = (field: string) => ({ code: Code.InvalidArgument, field });

/** A shop whose platform finds the order #1001. */
export function shopWithOrder({
  pool,
  shopId,
}: {
  readonly pool: pg.Pool;
  readonly shopId: bigint;
}) {
  /** A platform with this look-up. */
  const finding = (lookUp: LookUp): CommerceProvider => ({
    ...createEmbeddedCommerce(pool),
    lookUp,
  });
  const platform = (found: FoundOrder | undefined = order) => finding(async () => found);
  return {
    finding,
    platform,

    submit(more: SubmissionPart = {}, provider: CommerceProvider = platform()) {
      const request = returnRequest(shopId, {
        order: { name: '#1001' },
        currency: '',
        outcome: Outcome.UNSPECIFIED,
        findOrder: true,
        policy: PolicyUse.APPLY,
        lines: [{ providerLineItemId: 9001n, quantity: 1 }],
        ...more,
      });
      return submitReturn(submitDeps(pool, provider), submission(request));
    },

    async setPolicy(policy: MessageInitShape<typeof PolicySchema>) {
      const { rows } = await pool.query<{ version: bigint }>(
        'select coalesce(max(version), 0) as version from policies where shop_id = $1',
        [shopId],
      );
      const expectedVersion = rows[0]?.version ?? 0n;
      const request = create(UpdatePolicyRequestSchema, { shopId, actor, policy, expectedVersion });
      return updatePolicy(pool, request);
    },

    eligibilityOf: (provider: CommerceProvider = platform(), more: object = {}) =>
      getEligibility(submitDeps(pool, provider), {
        ...{ $typeName: 'rms.returns.v1.GetEligibilityRequest', shopId, actor },
        ...{ order: { case: 'orderName', value: '#1001' }, ...more },
      }),
  };
}
