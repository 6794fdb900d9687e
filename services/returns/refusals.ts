import { Code } from '@connectrpc/connect';
import { ErrorReason } from '../../proto/gen/rms/common/v1/error_pb.ts';
import { DETAILS_BYTES_MAX } from '../contract/limits.ts';
import { DomainError } from '../platform/errors.ts';

/** The shop has no return with this id. A return of another shop counts as absent. */
export function returnNotFound(): DomainError {
  return new DomainError(Code.NotFound, ErrorReason.RETURN_NOT_FOUND, 'no such return');
}

/** The shop has no line with this id. */
export function lineItemNotFound(): DomainError {
  return new DomainError(Code.NotFound, ErrorReason.LINE_ITEM_NOT_FOUND, 'no such line item');
}

/** The shop was never set up for returns. */
export function shopNotConfigured(): DomainError {
  return new DomainError(
    Code.FailedPrecondition,
    ErrorReason.SHOP_NOT_CONFIGURED,
    'the shop has no returns settings yet',
  );
}

/** The return's state does not allow the call. */
export function stateForbids(message: string): DomainError {
  return new DomainError(Code.FailedPrecondition, ErrorReason.STATE_FORBIDS, message);
}

/** A failed run of processing did part of its work, or may have. Only another run finishes it. */
export function outcomesFulfilled(): DomainError {
  return stateForbids(
    'processing has fulfilled part of the return, or asked for it without an answer, so money has moved or may have: process it again to do the rest',
  );
}

/** The shopper keeps the money of an instant refund, so only processing may end the return. */
export function paidForGood(): DomainError {
  return stateForbids(
    'an instant refund of the return was paid for good, so its lines are not free for another return: process it, which refunds what is left',
  );
}

export function alreadyOpen(what: string): DomainError {
  return new DomainError(Code.AlreadyExists, ErrorReason.ALREADY_OPEN, `${what} is open already`);
}

/** The details would become too large to be read or delivered. */
export function detailsTooLarge(returnId: bigint): DomainError {
  const limit = DETAILS_BYTES_MAX / 1024 / 1024;
  return new DomainError(
    Code.InvalidArgument,
    ErrorReason.RETURN_TOO_LARGE,
    `the details of return ${returnId} would be larger than ${limit} MiB (${DETAILS_BYTES_MAX} bytes): shorten notes and descriptions, or send fewer images`,
  );
}
