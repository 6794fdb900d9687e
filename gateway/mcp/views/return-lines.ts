import { z } from 'zod';
import {
  DispositionOutcomeSchema,
  LineOutcomeSchema,
  type Return,
} from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { iso, textOrNull, word, zero } from '../../../services/contract/views/values.ts';
import { DISPOSITION_OUTCOMES, LINE_OUTCOMES } from '../../../services/contract/vocabulary.ts';
import { UNTRUSTED } from '../fields.ts';

const text = () => z.string().nullable();

export const returnLine = z.strictObject({
  line_item_id: z.int(),
  sku: text(),
  quantity: z.int(),
  price: z.string().describe("Decimal amount of the whole line, in the shop's currency"),
  outcome: z.enum(LINE_OUTCOMES).nullable(),
  returned_at: text().describe('When the goods arrived'),
  condition: text().describe('The result of grading, in words'),
  disposition: z.enum(DISPOSITION_OUTCOMES).nullable(),
  untrusted_data: z
    .strictObject({ title: text(), reason: text(), parent_reason: text() })
    .describe(UNTRUSTED),
});

export function returnLinesView(ret: Return): z.output<typeof returnLine>[] {
  return ret.lineItems.map((line) => ({
    line_item_id: Number(line.lineItemId),
    sku: textOrNull(line.sku),
    quantity: line.quantity,
    price: textOrNull(line.amounts?.price) ?? zero(ret.currency),
    outcome: word(LineOutcomeSchema, line.outcome, LINE_OUTCOMES),
    returned_at: iso(line.returnedAt),
    condition: textOrNull(line.condition?.title),
    disposition: line.disposition
      ? word(DispositionOutcomeSchema, line.disposition.outcome, DISPOSITION_OUTCOMES)
      : null,
    untrusted_data: {
      title: textOrNull(line.title),
      reason: textOrNull(line.reason),
      parent_reason: textOrNull(line.parentReason),
    },
  }));
}
