import { LabelStatus } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { labelStatusText } from '../store/texts.ts';

const MOVES: readonly LabelStatus[] = [
  LabelStatus.IN_TRANSIT,
  LabelStatus.OUT_FOR_DELIVERY,
  LabelStatus.DELIVERED,
];

/** Whether the carrier has the parcel, or has delivered it. */
export function isMoving(status: LabelStatus): boolean {
  return MOVES.includes(status);
}

/** SQL: the list of the statuses for which {@link isMoving} is true. */
export const MOVING = MOVES.map((status) => `'${labelStatusText.toText(status)}'`).join(', ');
