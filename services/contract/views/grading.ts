import type { ConditionRecord } from '../../../proto/gen/rms/dispositions/v1/dispositions_pb.ts';
import { conditionView } from '../details/inspection.ts';
import type { GradingEntry } from '../resources/grading.ts';

/** One entry of the response of grade items. Throws for a record without a condition, which should not exist. */
export function gradingView({ condition, lineItemId }: ConditionRecord): GradingEntry {
  if (!condition) throw new Error(`line item ${lineItemId} has no condition`);
  return { line_item_id: Number(lineItemId), condition: conditionView(condition) };
}
