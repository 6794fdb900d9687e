import type { MessageInitShape } from '@bufbuild/protobuf';
import type { ReturnSummarySchema } from '../../../proto/gen/rms/portal/v1/return_pb.ts';
import {
  LabelStatusSchema,
  OutcomeSchema,
  ReturnStateSchema,
  ReturnTypeSchema,
} from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import type { ReturnSummary } from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { word, zero } from '../../../services/contract/views/values.ts';
import {
  LABEL_STATUSES,
  RETURN_OUTCOMES,
  RETURN_STATES,
  RETURN_TYPES,
} from '../../../services/contract/vocabulary.ts';

/** A row of the list of returns, with the values that the page of the return shows. */
export function listedView(one: ReturnSummary): MessageInitShape<typeof ReturnSummarySchema> {
  const { order, totals, details, currency, createdAt, updatedAt } = one;
  const names = [details?.customerFirstName, details?.customerLastName].filter(Boolean);
  return {
    id: String(one.id),
    orderName: order?.name ?? '',
    state: word(ReturnStateSchema, one.state, RETURN_STATES) ?? '',
    outcome: word(OutcomeSchema, one.outcome, RETURN_OUTCOMES) ?? '',
    type: word(ReturnTypeSchema, one.type, RETURN_TYPES) ?? '',
    customerName: names.join(' '),
    customerEmail: details?.customerEmail ?? '',
    total: { value: totals?.total || zero(currency), currency },
    units: details?.units ?? 0,
    titles: details?.titles ?? [],
    labelStatus: word(LabelStatusSchema, one.labelStatus, LABEL_STATUSES) ?? '',
    ...(createdAt && { createdAt }),
    ...(updatedAt && { updatedAt }),
    flagReasons: details?.flagReasons ?? [],
    processing: one.processing,
    fraudReported: details?.fraudReported ?? false,
  };
}
