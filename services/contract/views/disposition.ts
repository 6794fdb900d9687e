import type { DispositionRecord } from '../../../proto/gen/rms/dispositions/v1/dispositions_pb.ts';
import { DispositionOutcomeSchema } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import type { DispositionEntry } from '../resources/disposition.ts';
import { DISPOSITION_OUTCOMES } from '../vocabulary.ts';
import { iso, word } from './values.ts';

/** One entry of the response of assess dispositions. Throws for a record without an outcome, which should not exist. */
export function dispositionView(record: DispositionRecord): DispositionEntry {
  const { disposition, lineItemId } = record;
  const outcome = word(DispositionOutcomeSchema, disposition?.outcome ?? 0, DISPOSITION_OUTCOMES);
  if (outcome === null) throw new Error(`line item ${lineItemId} has no disposition outcome`);
  return {
    line_item_id: Number(lineItemId),
    disposition_outcome: outcome,
    return_processor: disposition?.returnProcessor ?? null,
    note: disposition?.note ?? null,
    inspected_at: iso(disposition?.inspectedAt),
  };
}
