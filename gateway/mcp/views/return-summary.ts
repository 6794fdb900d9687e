import { z } from 'zod';
import {
  LabelStatusSchema,
  OutcomeSchema,
  type Return,
  ReturnMethodSchema,
  ReturnStateSchema,
  ReturnTypeSchema,
} from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { idNumber, iso, textOrNull, word, zero } from '../../../services/contract/views/values.ts';
import {
  LABEL_STATUSES,
  RETURN_METHODS,
  RETURN_OUTCOMES,
  RETURN_STATES,
  RETURN_TYPES,
} from '../../../services/contract/vocabulary.ts';
import { UNTRUSTED } from '../fields.ts';
import { maskedEmail } from '../masked-email.ts';
import { described } from '../result-schema.ts';
import type { ToolContext } from '../tool.ts';

const text = () => z.string().nullable();
const when = () => z.string().nullable().meta({ format: 'date-time' });

export const returnSummary = z.strictObject({
  id: z.int(),
  order_name: text(),
  state: z.enum(RETURN_STATES).nullable(),
  processing: z.boolean().describe('Whether processing is queued or running'),
  type: z.enum(RETURN_TYPES).nullable(),
  outcome: z.enum(RETURN_OUTCOMES).nullable().describe('What the shopper gets'),
  return_method: z.enum(RETURN_METHODS).nullable(),
  currency: z.string().describe("The shop's currency; the amounts of this return are in it"),
  total: z.string().describe('Decimal amount'),
  refund: z.string().describe('Decimal amount'),
  items: z.int().describe('Number of units in all lines'),
  label_status: z.enum(LABEL_STATUSES).nullable(),
  tracking_number: text(),
  destination_id: z.int().nullable(),
  destination_name: text(),
  created_at: when(),
  updated_at: when(),
  customer_email_masked: text().describe(
    'Masked; get_return with detail full returns the whole address',
  ),
  untrusted_data: described(
    `item_titles of five lines, reasons, flag_reasons. ${UNTRUSTED}`,
    z.strictObject({
      item_titles: z.array(z.string()),
      reasons: z.array(z.string()),
      flag_reasons: z.array(z.string()),
    }),
  ),
});
export type ReturnSummary = z.output<typeof returnSummary>;

const TITLES_MAX = 5;
const REASONS_MAX = 10;

export async function returnSummaryView(context: ToolContext, ret: Return): Promise<ReturnSummary> {
  const label = ret.labels.at(-1);
  const none = zero(ret.currency);
  const reasons = new Set(ret.lineItems.map(({ reason }) => reason).filter(Boolean));
  return {
    id: Number(ret.id),
    order_name: textOrNull(ret.order?.name),
    state: word(ReturnStateSchema, ret.state, RETURN_STATES),
    processing: ret.processing,
    type: word(ReturnTypeSchema, ret.type, RETURN_TYPES),
    outcome: word(OutcomeSchema, ret.outcome, RETURN_OUTCOMES),
    return_method: word(ReturnMethodSchema, ret.returnMethod, RETURN_METHODS),
    currency: ret.currency,
    total: textOrNull(ret.totals?.total) ?? none,
    refund: textOrNull(ret.totals?.refund) ?? none,
    items: ret.lineItems.reduce((sum, { quantity }) => sum + quantity, 0),
    label_status: label ? word(LabelStatusSchema, label.status, LABEL_STATUSES) : null,
    tracking_number: textOrNull(label?.trackingNumber),
    destination_id: idNumber(ret.destinationId),
    destination_name: await context.destinationNames(context, ret.destinationId),
    created_at: iso(ret.createdAt),
    updated_at: iso(ret.updatedAt),
    customer_email_masked: maskedEmail(ret.customer?.email),
    untrusted_data: {
      item_titles: ret.lineItems.slice(0, TITLES_MAX).map(({ title }) => title),
      reasons: [...reasons].slice(0, REASONS_MAX),
      flag_reasons: ret.flagReasons,
    },
  };
}
