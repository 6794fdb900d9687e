import { Code, ConnectError } from '@connectrpc/connect';
import { ErrorInfoSchema, ErrorReason } from '../../proto/gen/rms/common/v1/error_pb.ts';

/**
 * An error on which the caller can act. Code, reason, text and field reach the caller of the RPC unchanged. The gateway
 * converts it to a REST response by its reason: `gateway/service-errors.ts`.
 *
 * Every other thrown error is a bug or an outage, and its text never leaves the process.
 */
export class DomainError extends Error {
  override readonly name = 'DomainError';
  readonly code: Code;
  readonly reason: ErrorReason;
  /** Path of the invalid field, such as `lines[0].price`; empty when there is no single one. */
  readonly field: string;

  constructor(
    code: Code,
    reason: ErrorReason,
    message: string,
    options: { field?: string; cause?: unknown } = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.reason = reason;
    this.field = options.field ?? '';
  }
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

/** For callers: returns the reason of a {@link DomainError}; undefined for other failures. */
export function reasonOf(error: unknown): ErrorReason | undefined {
  if (error instanceof DomainError) return error.reason;
  return infoOf(error)?.reason;
}

/** For callers: returns the field of a {@link DomainError}; undefined if the error has none. */
export function fieldOf(error: unknown): string | undefined {
  const field = error instanceof DomainError ? error.field : infoOf(error)?.field;
  return field === '' ? undefined : field;
}

/** Returns UNAVAILABLE for a call that was not started because too many are in flight. */
export function overloaded(): ConnectError {
  const value = { reason: ErrorReason.OVERLOADED };
  const details = [{ desc: ErrorInfoSchema, value }];
  return new ConnectError('too many calls in flight', Code.Unavailable, undefined, details);
}

/** For callers: whether the service did not start the call because too many were in flight. */
export function isOverloaded(error: unknown): boolean {
  return reasonOf(error) === ErrorReason.OVERLOADED;
}

/**
 * For callers: whether the connection or a server had no memory or capacity for the call. Our own quotas use the same
 * code with a reason, so this function returns false for them.
 */
export function isExhausted(error: unknown): boolean {
  return (
    error instanceof ConnectError &&
    error.code === Code.ResourceExhausted &&
    reasonOf(error) === undefined
  );
}

/** For callers: whether the service did not answer (unavailable, too slow, or the call was cancelled). */
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
