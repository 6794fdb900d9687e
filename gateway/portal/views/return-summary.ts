import type { MessageInitShape } from '@bufbuild/protobuf';
import type { ReturnSummarySchema } from '../../../proto/gen/rms/portal/v1/return_pb.ts';
import {
  LabelStatus,
  LabelStatusSchema,
  OutcomeSchema,
  type Return,
  ReturnStateSchema,
  ReturnTypeSchema,
} from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import type {
  ReturnSummary,
  SummaryDetails,
} from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { word, zero } from '../../../services/contract/views/values.ts';
import {
  LABEL_STATUSES,
  RETURN_OUTCOMES,
  RETURN_STATES,
  RETURN_TYPES,
} from '../../../services/contract/vocabulary.ts';

/** Number of titles in a summary. */
const TITLES = 3;

type SameInBoth =
  | 'id'
  | 'order'
  | 'state'
  | 'outcome'
  | 'type'
  | 'currency'
  | 'labelStatus'
  | 'createdAt'
  | 'updatedAt'
  | 'processing';

/** What a summary is made of: a row of a list, or a whole return. */
interface Summarized extends Pick<ReturnSummary, SameInBoth> {
  readonly totals?: { readonly total: string } | undefined;
  readonly details?: Partial<SummaryDetails> | undefined;
}

/** A return in a list. */
export function summaryView(one: Summarized): MessageInitShape<typeof ReturnSummarySchema> {
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

/** The summary of a whole return, as {@link summaryView} makes it. Only lists say whether it was reported as fraud. */
export function returnSummaryView(ret: Return): MessageInitShape<typeof ReturnSummarySchema> {
  const { customer, lineItems, flagReasons } = ret;
  return summaryView({
    ...ret,
    labelStatus: ret.labels.at(-1)?.status ?? LabelStatus.UNSPECIFIED,
    details: {
      customerFirstName: customer?.firstName ?? '',
      customerLastName: customer?.lastName ?? '',
      customerEmail: customer?.email ?? '',
      units: lineItems.reduce((sum, { quantity }) => sum + quantity, 0),
      titles: lineItems.slice(0, TITLES).map(({ title }) => title),
      flagReasons,
    },
  });
}
