import type { MessageInitShape } from '@bufbuild/protobuf';
import type { ReturnInstantRefundSchema } from '../../proto/gen/rms/portal/v1/return_pb.ts';
import { type Return, ReturnState } from '../../proto/gen/rms/returns/v1/return_pb.ts';
import {
  type CheckReturnResponse,
  type InstantRefund,
  InstantRefundStateSchema,
} from '../../proto/gen/rms/returns/v1/returns_pb.ts';
import { enumText } from '../../services/platform/enum-text.ts';
import { permissionsFor } from '../actions/permissions.ts';
import { checkReturn } from '../actions/returns.ts';
import { errorSentence } from '../error-sentence.ts';
import { permits } from '../tenancy/permissions.ts';
import type { PortalCall } from './call.ts';

const STATE = enumText(InstantRefundStateSchema);

/**
 * What a user must know before processing or cancelling a return. Empty when the return has ended, or when the user may
 * do neither.
 */
export interface ReturnCheck {
  /** Why the service would refuse to process the return; '' when it would not. */
  readonly processingRefused: string;
  /** Why the service would refuse to cancel the return; '' when it would not. */
  readonly cancelRefused: string;
  /** Whether cancelling the return also cancels its exchange order. */
  readonly cancelsOrder: boolean;
  readonly instantRefunds: MessageInitShape<typeof ReturnInstantRefundSchema>[];
}

const NOTHING_TO_CHECK: ReturnCheck = {
  processingRefused: '',
  cancelRefused: '',
  cancelsOrder: false,
  instantRefunds: [],
};

/** Asks the returns service what processing and cancelling would do. Does not ask when {@link NOTHING_TO_CHECK}. */
export async function checkOf(call: PortalCall, ret: Return): Promise<ReturnCheck> {
  const { role } = call.session;
  const mayProcess = permits(role, permissionsFor('process_return'));
  const mayCancel = permits(role, permissionsFor('cancel_return'));
  const isOpenOrInReview = ret.state === ReturnState.OPEN || ret.state === ReturnState.REVIEW;
  if (!isOpenOrInReview || !(mayProcess || mayCancel)) return NOTHING_TO_CHECK;
  const checked = await checkReturn(call.context, ret.id);
  return {
    processingRefused: mayProcess ? processingRefusal(checked) : '',
    cancelRefused: mayCancel ? sentence(checked.cancelRefusal) : '',
    cancelsOrder: checked.cancelsOrder,
    instantRefunds: checked.instantRefunds.map(instantRefundView),
  };
}

/** The reason in words. The service has one only for refusals, because the others are results of their own. */
function processingRefusal({ process }: CheckReturnResponse): string {
  const result = process?.result;
  switch (result?.case) {
    case 'refused':
      return result.value.message;
    case 'skippedInstantRefund':
      return OPEN_INSTANT_REFUND;
    case 'alreadyQueued':
      return 'The return is being processed.';
    case 'queued':
    case undefined:
      return '';
    default:
      return result satisfies never;
  }
}

/** Why a return with an open instant refund is not processed. */
export const OPEN_INSTANT_REFUND =
  'The shopper was paid before the goods arrived, and this instant refund is still open. The return can be processed when it has ended.';

function sentence(text: string): string {
  return text === '' ? '' : errorSentence(new Error(text));
}

function instantRefundView({ id, state, money, createdAt }: InstantRefund) {
  return {
    id: String(id),
    state: STATE.toText(state),
    ...(money && { money }),
    ...(createdAt && { createdAt }),
  };
}
