import type { DescEnum } from '@bufbuild/protobuf';
import {
  AutomaticProcessing_MomentSchema,
  type GetPolicyResponse,
  type ItemSelector,
  type PolicyException,
  type PolicyFee,
  type PolicyReason,
  type PolicyReview,
  RefundBasisSchema,
  type ReturnWindow,
  ReturnWindow_StartSchema,
  WithdrawalHandlingSchema,
} from '../../../proto/gen/rms/returns/v1/policy_pb.ts';
import {
  type Outcome,
  OutcomeSchema,
  type ReturnMethod,
  ReturnMethodSchema,
} from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import type { PolicyObject } from '../resources/policy.ts';
import {
  AUTOMATIC_MOMENTS,
  REFUND_BASES,
  RETURN_METHODS,
  RETURN_OUTCOMES,
  WINDOW_STARTS,
  WITHDRAWAL_HANDLINGS,
} from '../vocabulary.ts';
import { iso, textOrNull, word } from './values.ts';

/** Converts a policy to its JSON. Every key is present; an absent part allows everything. */
export function policyView({ policy, version, updatedAt }: GetPolicyResponse): PolicyObject {
  const { process, review } = policy ?? {};
  return {
    version: Number(version),
    updated_at: iso(updatedAt),
    window: windowView(policy?.window),
    final_sale: selectionView(policy?.finalSale),
    exceptions: (policy?.exceptions ?? []).map(exceptionView),
    countries: [...(policy?.countries ?? [])],
    outcomes: outcomesView(policy?.outcomes),
    return_methods: (policy?.returnMethods ?? []).flatMap((one) => methodView(one) ?? []),
    reasons: (policy?.reasons ?? []).map(reasonView),
    fees: (policy?.fees ?? []).map(feeView),
    review: reviewView(review),
    process: {
      moment: wordOr(AutomaticProcessing_MomentSchema, process?.moment, AUTOMATIC_MOMENTS),
      up_to: textOrNull(process?.upTo),
    },
    refund_basis: wordOr(RefundBasisSchema, policy?.refundBasis, REFUND_BASES),
    withdrawals: wordOr(WithdrawalHandlingSchema, policy?.withdrawals, WITHDRAWAL_HANDLINGS),
  };
}

/** The word of a value; the first one, which is the default, for an unspecified value. */
function wordOr<const T extends readonly [string, ...string[]]>(
  desc: DescEnum,
  value: number | undefined,
  words: T,
): T[number] {
  return word(desc, value ?? 0, words) ?? words[0];
}

function windowView(window: ReturnWindow | undefined): PolicyObject['window'] {
  const from = wordOr(ReturnWindow_StartSchema, window?.from, WINDOW_STARTS);
  return { days: window?.days ?? null, from };
}

function selectionView(items: ItemSelector | undefined): PolicyObject['final_sale'] {
  return {
    product_ids: (items?.productIds ?? []).map(Number),
    skus: [...(items?.skus ?? [])],
    tags: [...(items?.tags ?? [])],
  };
}

function exceptionView(one: PolicyException): PolicyObject['exceptions'][number] {
  return {
    ...selectionView(one.items),
    window: one.window ? windowView(one.window) : null,
    outcomes: outcomesView(one.outcomes),
  };
}

function outcomesView(outcomes: readonly Outcome[] = []): PolicyObject['outcomes'] {
  return outcomes.flatMap((one) => outcomeView(one) ?? []);
}

const outcomeView = (one: Outcome) => word(OutcomeSchema, one, RETURN_OUTCOMES);
const methodView = (one: ReturnMethod) => word(ReturnMethodSchema, one, RETURN_METHODS);

function reasonView(one: PolicyReason): PolicyObject['reasons'][number] {
  return {
    code: one.code,
    parent: textOrNull(one.parent),
    label: { ...one.label },
    asks_comment: one.asksComment,
    waives_fee: one.waivesFee,
  };
}

function feeView({ returnMethod, outcome, fee }: PolicyFee): PolicyObject['fees'][number] {
  return {
    return_method: methodView(returnMethod),
    outcome: outcomeView(outcome),
    amount: fee.case === 'amount' ? fee.value : null,
    percentage: fee.case === 'percentage' ? fee.value : null,
  };
}

function reviewView(review: PolicyReview | undefined): PolicyObject['review'] {
  const isCounted = review !== undefined && review.returnsAbove > 0;
  return {
    value_above: textOrNull(review?.valueAbove),
    reasons: [...(review?.reasons ?? [])],
    returns_above: isCounted ? review.returnsAbove : null,
    returns_days: isCounted ? review.returnsDays : null,
    fraud_report: review?.fraudReport ?? false,
    missing: review?.missing ?? false,
  };
}
