import {
  CustomerUpload_KindSchema,
  DispositionOutcomeSchema,
  LabelRequest_StateSchema,
  LabelStatusSchema,
  LineOutcomeSchema,
  OutcomeSchema,
  ReturnState,
  ReturnStateSchema,
} from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import {
  GiftCardModeSchema,
  LabelProviderSchema,
  RestockModeSchema,
} from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { enumText } from '../../platform/values/enum-text.ts';

// The texts of enums of the proto in the database.
export const stateText = enumText(ReturnStateSchema);

/** What a timeline entry about goods says when they came too late; empty for a return that may still be paid. */
export function endedText({ state }: { readonly state: ReturnState }): string {
  const hasEnded = state === ReturnState.CLOSED || state === ReturnState.CANCELLED;
  return hasEnded ? `. The return is ${stateText.toText(state)}: nothing more is paid` : '';
}
export const outcomeText = enumText(OutcomeSchema);
export const lineOutcomeText = enumText(LineOutcomeSchema);
export const labelStatusText = enumText(LabelStatusSchema);
export const dispositionText = enumText(DispositionOutcomeSchema);
export const uploadKindText = enumText(CustomerUpload_KindSchema);
export const labelRequestStateText = enumText(LabelRequest_StateSchema);
export const restockModeText = enumText(RestockModeSchema);
export const giftCardModeText = enumText(GiftCardModeSchema);
export const labelProviderText = enumText(LabelProviderSchema);
