import { create } from '@bufbuild/protobuf';
import { Code as StatusCode } from '@connectrpc/connect';
import { ErrorReason } from '../../../proto/gen/rms/common/v1/error_pb.ts';
import {
  Ineligibility_Code as Code,
  NotEligibleSchema,
  type Policy,
  PolicySchema,
} from '../../../proto/gen/rms/returns/v1/policy_pb.ts';
import {
  CustomerSchema,
  type LineInput,
  PolicyUse,
  ReturnMethod,
  ReturnMethodSchema,
  type SubmitReturnRequest,
} from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import type { OrderAnswer } from '../../commerce/find-order.ts';
import type { FoundOrder } from '../../commerce/provider.ts';
import { type Elsewhere, linesLeft } from '../../commerce/remaining.ts';
import { enumText } from '../../platform/values/enum-text.ts';
import { DomainError, invalidField } from '../../platform/values/errors.ts';
import { netOf } from '../../platform/values/line-value.ts';
import { inBoth } from '../../platform/values/money.ts';
import { snakeCase } from '../../platform/values/text.ts';
import { LINE_AMOUNTS } from '../money/totals.ts';
import { type JudgedLine, judge, type LineVerdict, sentenceOf } from '../policy/eligibility.ts';
import { judgedLines, methodsOf, requireOrder } from '../policy/get-eligibility.ts';
import { NotReturnable } from '../returnable.ts';
import { lineOf, lookedUp, needsLookUp } from './look-up.ts';
import { withAmounts } from './outcomes.ts';

// What a policy says about a submission: which lines it refuses, and which methods and reasons it offers.

/** Whether the provider finds the order of a submission, and all amounts are made of it. */
export function findsOrder(request: SubmitReturnRequest): boolean {
  return request.findOrder || (request.policy !== PolicyUse.UNSPECIFIED && needsLookUp(request));
}

/** Whether the amounts of a submission are made here, and the policy may refuse its lines. */
export function usesPolicy(
  request: Pick<SubmitReturnRequest, 'policy'> & { readonly findOrder?: boolean },
): boolean {
  return request.findOrder === true || request.policy !== PolicyUse.UNSPECIFIED;
}

/**
 * Completes a submission that uses the policy or `find_order`: what the provider knows of the order, and what the shopper
 * gets.
 *
 * @param o.answer of the provider; undefined when the submission states its order.
 * @throws DomainError INVALID_ARGUMENT, as for everything that is not offered; NOT_ELIGIBLE; ORDER_NOT_FOUND;
 *   NO_ORDER_LOOKUP; and as {@link lookedUp}.
 */
export function madeByPolicy(
  request: SubmitReturnRequest,
  o: {
    readonly answer: OrderAnswer | undefined;
    readonly elsewhere: Elsewhere;
    readonly policy: Policy;
  },
): SubmitReturnRequest {
  const { answer, elsewhere, policy } = o;
  const offered = withOffered(request, policy);
  if (!answer) {
    const verdicts = requireEligible(offered, policy, { elsewhere, now: new Date() });
    return withAmounts(offered, policy, { verdicts });
  }
  const found = requireOrder(answer, request.orderEmail);
  requireNoAmounts(request);
  const verdicts = requireEligible(offered, policy, { found, elsewhere, now: new Date() });
  const whole = lookedUp(withShopper(offered, found), answer, elsewhere);
  const rate = inBoth((side) => found.lines.reduce((sum, { paid }) => sum + netOf(paid[side]), 0n));
  const variants = new Map(found.lines.map((line) => [line.id, line.variants ?? []]));
  return withAmounts(whole, policy, { verdicts, rate, variants });
}

/** @throws DomainError INVALID_ARGUMENT for amounts, which the order has. */
function requireNoAmounts({ lines, orderShipping }: SubmitReturnRequest): void {
  const stated = lines.flatMap((line, n) =>
    LINE_AMOUNTS.filter((name) => line[name]).map((name) => `lines[${n}].${snakeCase(name)}`),
  );
  const [field] = [...stated, ...(orderShipping ? ['order_shipping'] : [])];
  if (field) throw invalidField(field, 'must be absent: the order has all amounts');
}

/** Adds the e-mail address of the order, unless the submission has one. */
function withShopper(request: SubmitReturnRequest, { email }: FoundOrder): SubmitReturnRequest {
  const { customer } = request;
  if (email === undefined || (customer?.email ?? '') !== '') return request;
  return { ...request, customer: { ...create(CustomerSchema), ...customer, email } };
}

/** The policy that refuses lines of a submission. One that is not asked, or overridden, refuses none. */
export function refusingPolicy({ policy: use }: SubmitReturnRequest, policy: Policy): Policy {
  return use === PolicyUse.APPLY ? policy : create(PolicySchema);
}

/**
 * Returns the verdict about the order line of each line item of a submission.
 *
 * @param found the order at the provider; undefined when the submission states it. Then the units are not judged here,
 *   because `requireReturnable` judges them.
 * @throws DomainError INVALID_ARGUMENT for a line item that is not in the order; NOT_ELIGIBLE.
 */
export function requireEligible(
  request: SubmitReturnRequest,
  policy: Policy,
  o: { readonly found?: FoundOrder | undefined; readonly elsewhere: Elsewhere; readonly now: Date },
): LineVerdict[] {
  const judged = o.found
    ? { ...o.found, lines: judgedLines(o.found, o.elsewhere) }
    : statedOrder(request);
  const verdicts = new Map(
    judge(refusingPolicy(request, policy), judged, o.now).map((one) => [one.id, one]),
  );
  const left = o.found && linesLeft(o.found, o.elsewhere);
  const asked = request.lines.map((line, n) => {
    const known = left ? lineOf(line, n, left) : { id: line.providerLineItemId };
    const verdict = verdicts.get(known.id);
    if (!verdict) throw invalidField(`lines[${n}].provider_line_item_id`, 'is required');
    if (left && line.quantity < 1) throw invalidField(`lines[${n}].quantity`, 'must be at least 1');
    return { line, verdict, n };
  });
  const refused = asked.filter(({ line, verdict }) => line.quantity > verdict.returnable);
  for (const { verdict, n } of refused) {
    if (verdict.reasons.length > 0) continue;
    const rule = `must be at most ${verdict.returnable}, which were ordered`;
    throw invalidField(`lines[${n}].quantity`, rule);
  }
  if (refused.length > 0) {
    throw notEligible(
      refused.map(({ verdict: { id, reasons } }) => ({ id, code: reasons[0] ?? Code.UNSPECIFIED })),
    );
  }
  return asked.map(({ verdict }) => verdict);
}

/** A submission that states its order. The provider says nothing about it, so no line has tags or times. */
function statedOrder({ lines, customer }: SubmitReturnRequest) {
  const country = customer?.address?.countryCode.toUpperCase();
  return {
    ...(country && { shippingCountry: country }),
    lines: lines.map(
      (line): JudgedLine => ({
        id: line.providerLineItemId,
        sku: line.sku,
        productId: line.productId || undefined,
        quantity: line.quantity,
        returnable: line.quantity,
        ...{ inOpenReturns: 0, returned: 0, refundedThere: 0 },
      }),
    ),
  };
}

function notEligible(
  lines: readonly { readonly id: bigint; readonly code: Code }[],
  cause?: unknown,
): DomainError {
  const [first] = lines;
  const others = lines.length > 1 ? ` (and ${lines.length - 1} more)` : '';
  const why = `order line ${first?.id}${others} cannot be returned: ${sentenceOf(first?.code ?? Code.UNSPECIFIED)}`;
  const value = {
    lines: lines.map(({ id, code }) => ({ providerLineItemId: id, code })),
  };
  const detail = { desc: NotEligibleSchema, value };
  const { NOT_ELIGIBLE } = ErrorReason;
  return new DomainError(StatusCode.FailedPrecondition, NOT_ELIGIBLE, why, { detail, cause });
}

const CODES = {
  cancelled: Code.ORDER_CANCELLED,
  open: Code.IN_OPEN_RETURN,
  closed: Code.ALREADY_RETURNED,
  refunded: Code.REFUNDED,
};

/**
 * Converts the error of `requireReturnable` to NOT_ELIGIBLE, for a submission that uses the policy. Other errors are
 * returned unchanged.
 */
export function asNotEligible(
  error: unknown,
  lines: readonly { readonly providerLineItemId: bigint }[],
): unknown {
  if (!(error instanceof NotReturnable)) return error;
  const [, at] = /^lines\[(\d+)\]/.exec(error.field) ?? [];
  const code = CODES[error.taken];
  const ofAll = lines.map((line) => ({ id: line.providerLineItemId, code }));
  return notEligible(at === undefined ? ofAll : ofAll.slice(Number(at), Number(at) + 1), error);
}

const methodText = enumText(ReturnMethodSchema);

/**
 * Requires that the return method and the reasons are offered, and adds what the policy knows: the method when it was
 * not stated, and the group of each reason. A policy that is overridden offers everything.
 *
 * @throws DomainError INVALID_ARGUMENT
 */
export function withOffered(request: SubmitReturnRequest, policy: Policy): SubmitReturnRequest {
  const refusing = refusingPolicy(request, policy);
  const methods = methodsOf(refusing);
  const { returnMethod: stated } = request;
  const [first = ReturnMethod.MAIL] = methods;
  const isMailOffered = methods.includes(ReturnMethod.MAIL);
  const returnMethod = stated || (isMailOffered ? ReturnMethod.MAIL : first);
  if (!methods.includes(returnMethod)) {
    const offers = methods.map((one) => methodText.toText(one)).join(', ');
    throw invalidField('return_method', `is not offered; offered are: ${offers}`);
  }
  const lines = request.lines.map((line, n) => withReason(line, n, { policy, refusing }));
  return { ...request, returnMethod, lines };
}

function withReason(
  line: LineInput,
  n: number,
  { policy, refusing }: { readonly policy: Policy; readonly refusing: Policy },
): LineInput {
  if (line.reason === '') return line;
  const known = policy.reasons.find(({ code }) => code === line.reason);
  if (!known && refusing.reasons.length > 0) {
    const codes = refusing.reasons.map(({ code }) => code).join(', ');
    throw invalidField(`lines[${n}].reason`, `must be one of: ${codes}`);
  }
  if (known?.asksComment && refusing.reasons.length > 0 && line.comment.trim() === '') {
    throw invalidField(`lines[${n}].comment`, `is required with the reason ${line.reason}`);
  }
  return known ? { ...line, parentReason: line.parentReason || known.parent } : line;
}
