import { Code } from '@connectrpc/connect';
import { ErrorReason } from '../../proto/gen/rms/common/v1/error_pb.ts';
import { DETAILS_BYTES_MAX } from '../contract/limits.ts';
import { DomainError } from '../platform/errors.ts';

/** The shop has no return with this id. A return of another shop counts as absent. */
export function returnNotFound(): DomainError {
  return new DomainError(Code.NotFound, ErrorReason.RETURN_NOT_FOUND, 'no such return');
}

/**
 * The shop has no line with this id.
 *
 * @param field the list of the request that has ids of other line items, if it has such a list.
 */
export function lineItemNotFound(field?: string): DomainError {
  const reason = ErrorReason.LINE_ITEM_NOT_FOUND;
  if (field === undefined) return new DomainError(Code.NotFound, reason, 'no such line item');
  const text = `${field} must be ids of line items of the return`;
  return new DomainError(Code.NotFound, reason, text, { field });
}

/** Processing planned no such effect for the return. */
export function effectNotFound(): DomainError {
  return new DomainError(Code.NotFound, ErrorReason.EFFECT_NOT_FOUND, 'no such effect');
}

/** The shop has no returns settings. */
export function shopNotConfigured(): DomainError {
  return new DomainError(
    Code.FailedPrecondition,
    ErrorReason.SHOP_NOT_CONFIGURED,
    'the shop has no returns settings yet',
  );
}

/** ALREADY_EXISTS: only one of `what`, such as `a label request`, can be open. */
export function alreadyOpen(what: string): DomainError {
  return new DomainError(Code.AlreadyExists, ErrorReason.ALREADY_OPEN, `${what} is already open`);
}

/** The details of a return would exceed their maximum size. */
export function detailsTooLarge(returnId: bigint): DomainError {
  const limit = DETAILS_BYTES_MAX / 1024 / 1024;
  return new DomainError(
    Code.InvalidArgument,
    ErrorReason.RETURN_TOO_LARGE,
    `the details of return ${returnId} would be larger than ${limit} MiB (${DETAILS_BYTES_MAX} bytes): shorten notes and descriptions, or send fewer images`,
  );
}
