import {
  LabelStatusSchema,
  OutcomeSchema,
  ReturnMethodSchema,
  ReturnStateSchema,
  ReturnTypeSchema,
} from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import type { ReturnSummary, SummaryTotals } from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import type { ReturnPage, ReturnSummaryObject } from '../resources/return-list.ts';
import {
  LABEL_STATUSES,
  RETURN_METHODS,
  RETURN_OUTCOMES,
  RETURN_STATES,
  RETURN_TYPES,
} from '../vocabulary.ts';
import { idNumber, iso, textOrNull, word, zero } from './values.ts';

/** A page of the shop's returns. */
export function returnPageView(page: {
  readonly summaries: readonly ReturnSummary[];
  readonly nextCursor: string;
}): ReturnPage {
  return {
    returns: page.summaries.map(returnSummaryView),
    next_cursor: textOrNull(page.nextCursor),
  };
}

/** A return as a row of a list. Throws when its state or order is missing. */
function returnSummaryView(summary: ReturnSummary): ReturnSummaryObject {
  const { order } = summary;
  const state = word(ReturnStateSchema, summary.state, RETURN_STATES);
  if (!state || !order) throw new Error(`return ${summary.id} has no state or order`);
  return {
    id: Number(summary.id),
    order_id: Number(order.id),
    order_name: order.name,
    order_number: idNumber(order.number),
    provider_order_id: idNumber(order.providerOrderId),
    state,
    processing: summary.processing,
    type: word(ReturnTypeSchema, summary.type, RETURN_TYPES),
    outcome: word(OutcomeSchema, summary.outcome, RETURN_OUTCOMES),
    return_method: word(ReturnMethodSchema, summary.returnMethod, RETURN_METHODS),
    ...amountsIn(summary.currency, summary.totals),
    presentment: amountsIn(summary.presentmentCurrency, summary.presentmentTotals),
    label_status: word(LabelStatusSchema, summary.labelStatus, LABEL_STATUSES),
    label_updated_at: iso(summary.labelUpdatedAt),
    carrier: textOrNull(summary.carrier),
    tracking_number: textOrNull(summary.trackingNumber),
    destination_id: idNumber(summary.destinationId),
    created_at: iso(summary.createdAt),
    updated_at: iso(summary.updatedAt),
    edited_at: iso(summary.editedAt),
    archived_at: iso(summary.archivedAt),
  };
}

function amountsIn(currency: string, totals: SummaryTotals | undefined) {
  const none = zero(currency);
  return {
    currency,
    total: textOrNull(totals?.total) ?? none,
    refund: textOrNull(totals?.refund) ?? none,
    return_credit_total: textOrNull(totals?.returnCreditTotal) ?? none,
    handling_fee: textOrNull(totals?.handlingFee) ?? none,
  };
}
