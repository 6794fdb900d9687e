import type { Label } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { labelView } from '../details/label.ts';
import type { RecordedLabel } from '../resources/label.ts';

/** A label with its ids, as in the responses of record label and update label. */
export function recordedLabelView(label: Label): RecordedLabel {
  return { id: Number(label.id), return_id: Number(label.returnId), ...labelView(label) };
}
