import type { DescMessage, MessageInitShape, MessageShape } from '@bufbuild/protobuf';
import { Code, ConnectError } from '@connectrpc/connect';
import { ErrorInfoSchema, ErrorReason } from '../../../proto/gen/rms/common/v1/error_pb.ts';

/**
 * An error on which a caller can act. Its code, reason, text and field reach the caller of the RPC unchanged. The
 * gateway converts it to a REST response by its reason: `gateway/service-errors.ts`.
 *
 * Every other error is a bug or an outage. Its text never leaves the process.
 */
export class DomainError extends Error {
  override readonly name = 'DomainError';
  readonly code: Code;
  readonly reason: ErrorReason;
  /** Path of the invalid field, such as `lines[0].price`; empty when the error is not about one field. */
  readonly field: string;
  /** A message with more about the error; undefined for most. */
  readonly detail: ErrorDetail | undefined;

  constructor(
    code: Code,
    reason: ErrorReason,
    message: string,
    options: { field?: string; detail?: ErrorDetail; cause?: unknown } = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.reason = reason;
    this.field = options.field ?? '';
    this.detail = options.detail;
  }
}

/** A message that is attached to an error. */
export interface ErrorDetail<D extends DescMessage = DescMessage> {
  readonly desc: D;
  readonly value: MessageInitShape<D>;
}

/** Returns INVALID_ARGUMENT with the text "`field` `rule`": `invalidField('name', 'is required')`. */
export function invalidField(field: string, rule: string): DomainError {
  return new DomainError(Code.InvalidArgument, ErrorReason.INVALID_FIELD, `${field} ${rule}`, {
    field,
  });
}

/** Returns FAILED_PRECONDITION for a request that the present state does not allow. */
export function stateForbids(message: string): DomainError {
  return new DomainError(Code.FailedPrecondition, ErrorReason.STATE_FORBIDS, message);
}

/** Returns REVISION_CONFLICT for a change that expects another value of a field than `now`. */
export function changedSince(field: string, now = ''): DomainError {
  const value = now === '' ? '' : `: it is now ${now}`;
  const message = `somebody has changed the ${field} in the meantime${value}`;
  const { REVISION_CONFLICT } = ErrorReason;
  return new DomainError(Code.Aborted, REVISION_CONFLICT, message, { field: `expected.${field}` });
}

/** Used by clients: returns the reason of a {@link DomainError}; undefined for other failures. */
export function reasonOf(error: unknown): ErrorReason | undefined {
  if (error instanceof DomainError) return error.reason;
  return infoOf(error)?.reason;
}

/** Used by clients: returns the field of a {@link DomainError}; undefined when the error has none. */
export function fieldOf(error: unknown): string | undefined {
  const field = error instanceof DomainError ? error.field : infoOf(error)?.field;
  return field === '' ? undefined : field;
}

/** Used by clients: returns the attached message of this type; undefined when the error has none. */
export function detailOf<D extends DescMessage>(
  error: unknown,
  desc: D,
): MessageShape<D> | undefined {
  return error instanceof ConnectError ? error.findDetails(desc)[0] : undefined;
}

/** The error for a call that was not started because too many calls are in flight (UNAVAILABLE). */
export function overloaded(): ConnectError {
  const value = { reason: ErrorReason.OVERLOADED };
  const details = [{ desc: ErrorInfoSchema, value }];
  return new ConnectError('too many calls in flight', Code.Unavailable, undefined, details);
}

/** Used by clients: whether the service did not start the call, because too many calls were in flight. */
export function isOverloaded(error: unknown): boolean {
  return reasonOf(error) === ErrorReason.OVERLOADED;
}

/**
 * Used by clients: whether the connection or a server had no memory or capacity for the call. Our own quotas use the
 * same code together with a reason. For them this function returns false.
 */
export function isExhausted(error: unknown): boolean {
  return (
    error instanceof ConnectError &&
    error.code === Code.ResourceExhausted &&
    reasonOf(error) === undefined
  );
}

/**
 * Used by clients: whether there was no response, because the service is unavailable or too slow, or the call was
 * cancelled.
 */
export function isUnavailable(error: unknown): boolean {
  return error instanceof ConnectError && NO_RESPONSE.has(error.code);
}

const NO_RESPONSE: ReadonlySet<Code> = new Set([
  Code.Unavailable,
  Code.DeadlineExceeded,
  Code.Canceled,
]);

function infoOf(error: unknown) {
  return error instanceof ConnectError ? error.findDetails(ErrorInfoSchema)[0] : undefined;
}
