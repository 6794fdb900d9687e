import { type Return, ReturnState } from '../../../../proto/gen/rms/returns/v1/return_pb.ts';
import type {
  CheckReturnResponse,
  InstantRefund,
  PaidPart,
} from '../../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { sentence } from '../../words.ts';

/** What a user must know before processing or cancelling a return. */
export interface ReturnCheck {
  /** Why the service would refuse to process the return; empty when it would not. */
  readonly processingRefused: string;
  /** Why the service would refuse to cancel the return; empty when it would not. */
  readonly cancelRefused: string;
  /** Whether cancelling the return also cancels its exchange order. */
  readonly cancelsOrder: boolean;
  readonly instantRefunds: readonly InstantRefund[];
  /** What processing pays, when the policy pays what arrived and that is less than was announced. */
  readonly paidPart: PaidPart | undefined;
}

/** The element that says why the return cannot be processed. */
export const REFUSED_ID = 'processing-refused';

/** What every part of the page that decides something gets. */
export interface Checked {
  readonly about: Return;
  readonly check: ReturnCheck;
}

/** What every dialog about a return gets. */
export interface ReturnDialogProps extends Checked {
  readonly onClose: () => void;
}

const NOTHING: ReturnCheck = {
  processingRefused: '',
  cancelRefused: '',
  cancelsOrder: false,
  instantRefunds: [],
  paidPart: undefined,
};

/** Whether the return can still be processed or cancelled. */
export function isUndecided({ state }: Return): boolean {
  return state === ReturnState.OPEN || state === ReturnState.REVIEW;
}

/** @param found undefined for a return that has ended, and for a user who may do neither. */
export function checkOf(found: CheckReturnResponse | undefined): ReturnCheck {
  if (!found) return NOTHING;
  const { process, cancelRefusal, cancelsOrder, instantRefunds, paidPart } = found;
  return {
    processingRefused: refusalOf(process?.result),
    cancelRefused: sentence(cancelRefusal),
    cancelsOrder,
    instantRefunds,
    paidPart,
  };
}

/** Why a return is not processed, or would not be; empty when it is. */
export function refusalOf(
  result: NonNullable<CheckReturnResponse['process']>['result'] | undefined,
): string {
  switch (result?.case) {
    case 'refused':
      return result.value.message;
    case 'skippedInstantRefund':
      return 'The shopper was paid before the goods arrived, and this instant refund is still open. The return can be processed when it has ended.';
    case 'alreadyQueued':
      return 'The return is being processed.';
    case 'queued':
    case undefined:
      return '';
    default:
      return result satisfies never;
  }
}
