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

/** What a user who decides about a return must know before. Empty for a return that has ended. */
export interface ReturnCheck {
  readonly processingRefused: string;
  readonly cancelRefused: string;
  readonly cancelsOrder: boolean;
  readonly instantRefunds: MessageInitShape<typeof ReturnInstantRefundSchema>[];
}

const ENDED: ReturnCheck = {
  processingRefused: '',
  cancelRefused: '',
  cancelsOrder: false,
  instantRefunds: [],
};

/** Asks the service that processes and cancels, for a return that is open or in review, and a user who may do either. */
export async function checkOf(call: PortalCall, ret: Return): Promise<ReturnCheck> {
  const { role } = call.session;
  const mayProcess = permits(role, permissionsFor('process_return'));
  const mayCancel = permits(role, permissionsFor('cancel_return'));
  const isOpenOrInReview = ret.state === ReturnState.OPEN || ret.state === ReturnState.REVIEW;
  if (!isOpenOrInReview || !(mayProcess || mayCancel)) return ENDED;
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
