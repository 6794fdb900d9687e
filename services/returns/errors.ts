import { Code } from '@connectrpc/connect';
import { ErrorReason } from '../../proto/gen/rms/common/v1/error_pb.ts';
import { DETAILS_BYTES_MAX } from '../contract/limits.ts';
import { DomainError } from '../platform/values/errors.ts';

/** The error for a return that the shop does not have. A return of another shop counts as absent. */
export function returnNotFound(): DomainError {
  return new DomainError(Code.NotFound, ErrorReason.RETURN_NOT_FOUND, 'no such return');
}

/** @throws DomainError REVISION_CONFLICT when the return changed after the caller had read it. */
export function requireRevision(
  { revision }: { readonly revision: bigint },
  expectedRevision: bigint,
): void {
  if (revision === expectedRevision) return;
  throw new DomainError(
    Code.Aborted,
    ErrorReason.REVISION_CONFLICT,
    `the return is now at revision ${revision}; read it again`,
    { field: 'expected_revision' },
  );
}

/**
 * The error for a line item that the shop does not have.
 *
 * @param field the list in the request that contains the id, if the id is in such a list.
 */
export function lineItemNotFound(field?: string): DomainError {
  const reason = ErrorReason.LINE_ITEM_NOT_FOUND;
  if (field === undefined) return new DomainError(Code.NotFound, reason, 'no such line item');
  const text = `${field} must be ids of line items of the return`;
  return new DomainError(Code.NotFound, reason, text, { field });
}

/** The error for an effect that processing did not plan for the return. */
export function effectNotFound(): DomainError {
  return new DomainError(Code.NotFound, ErrorReason.EFFECT_NOT_FOUND, 'no such effect');
}

/** The error for a shop that has no returns settings. */
export function shopNotConfigured(): DomainError {
  return new DomainError(
    Code.FailedPrecondition,
    ErrorReason.SHOP_NOT_CONFIGURED,
    'the shop has no returns settings yet',
  );
}

/** The error for a second open thing of a kind (ALREADY_EXISTS). @param what such as `a label request`. */
export function alreadyOpen(what: string): DomainError {
  return new DomainError(Code.AlreadyExists, ErrorReason.ALREADY_OPEN, `${what} is already open`);
}

/** The error for a change after which the details of a return would exceed their maximum size. */
export function detailsTooLarge(returnId: bigint): DomainError {
  const limit = DETAILS_BYTES_MAX / 1024 / 1024;
  return new DomainError(
    Code.InvalidArgument,
    ErrorReason.RETURN_TOO_LARGE,
    `the details of return ${returnId} would be larger than ${limit} MiB (${DETAILS_BYTES_MAX} bytes): shorten notes and descriptions, or send fewer images`,
  );
}
