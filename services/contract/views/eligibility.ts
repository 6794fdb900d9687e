import {
  type Eligibility,
  type EligibleLine,
  type Ineligibility_Code,
  Ineligibility_CodeSchema,
} from '../../../proto/gen/rms/returns/v1/policy_pb.ts';
import { OutcomeSchema, ReturnMethodSchema } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import type { EligibilityObject } from '../resources/eligibility.ts';
import {
  INELIGIBILITY_CODES,
  type IneligibilityCode,
  RETURN_METHODS,
  SUBMITTED_OUTCOMES,
} from '../vocabulary.ts';
import { iso, textOrNull, word } from './values.ts';

/** What of an order may be returned, in responses. */
export function eligibilityView(of: Eligibility): EligibilityObject {
  return {
    order_name: of.orderName,
    provider_order_id: Number(of.providerOrderId),
    ordered_at: iso(of.orderedAt),
    currency: of.currency,
    presentment_currency: of.presentmentCurrency,
    policy_version: Number(of.policyVersion),
    outcomes: outcomesView(of.outcomes),
    return_methods: of.returnMethods
      .map((method) => word(ReturnMethodSchema, method, RETURN_METHODS))
      .filter((method) => method !== null),
    lines: of.lines.map(lineView),
  };
}

function lineView(line: EligibleLine): EligibilityObject['lines'][number] {
  return {
    provider_line_item_id: Number(line.providerLineItemId),
    sku: textOrNull(line.sku),
    title: textOrNull(line.title),
    variant_title: textOrNull(line.variantTitle),
    image: textOrNull(line.image),
    ordered_quantity: line.orderedQuantity,
    returnable_quantity: line.returnableQuantity,
    window_ends_at: iso(line.windowEndsAt),
    price: line.price,
    refund: line.refund,
    outcomes: outcomesView(line.outcomes),
    reasons: line.reasons.map(({ code, message }) => ({ code: codeView(code), message })),
  };
}

function outcomesView(outcomes: readonly number[]): EligibilityObject['outcomes'] {
  return outcomes
    .map((outcome) => word(OutcomeSchema, outcome, SUBMITTED_OUTCOMES))
    .filter((outcome) => outcome !== null);
}

/** A code of why units cannot be returned. @throws Error for an unknown code, which is a bug. */
export function codeView(code: Ineligibility_Code): IneligibilityCode {
  const name = Ineligibility_CodeSchema.value[code]?.localName;
  const known = INELIGIBILITY_CODES.find((one) => one === name);
  if (known === undefined) throw new Error(`unknown code ${code} of ineligibility`);
  return known;
}
