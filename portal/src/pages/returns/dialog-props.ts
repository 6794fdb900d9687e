import type { Return } from '../../../../proto/gen/rms/portal/v1/return_pb.ts';

/** What every dialog about a return gets. */
export interface ReturnDialogProps {
  readonly returnId: string;
  readonly about: Return;
  readonly onClose: () => void;
}
