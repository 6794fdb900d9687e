import { Code, ConnectError } from '@connectrpc/connect';
import { ErrorInfoSchema, ErrorReason } from '../../proto/gen/rms/common/v1/error_pb.ts';

/**
 * A refusal the caller can act on: code, reason, text and field cross the gRPC boundary intact.
 *
 * Everything else that is thrown is a fault or an outage, and its text never leaves the process.
 */
export class DomainError extends Error {
  override readonly name = 'DomainError';
  readonly code: Code;
  readonly reason: ErrorReason;
  /** Path of the field at fault, such as `lines[0].price`; empty when there is no single one. */
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

/** INVALID_ARGUMENT for one field, reading "`field` `rule`": `invalidField('name', 'is required')`. */
export function invalidField(field: string, rule: string): DomainError {
  return new DomainError(Code.InvalidArgument, ErrorReason.INVALID_FIELD, `${field} ${rule}`, {
    field,
  });
}

/** On the calling side: the reason a {@link DomainError} carried, if the failure was one. */
export function reasonOf(error: unknown): ErrorReason | undefined {
  if (error instanceof DomainError) return error.reason;
  return infoOf(error)?.reason;
}

/** On the calling side: the field a {@link DomainError} named; undefined when it named none. */
export function fieldOf(error: unknown): string | undefined {
  const field = error instanceof DomainError ? error.field : infoOf(error)?.field;
  return field === '' ? undefined : field;
}

/** UNAVAILABLE for a call that was not begun, because too many are in flight. */
export function overloaded(): ConnectError {
  const value = { reason: ErrorReason.OVERLOADED };
  const details = [{ desc: ErrorInfoSchema, value }];
  return new ConnectError('too many calls in flight', Code.Unavailable, undefined, details);
}

/** On the calling side: the service refused to begin the call, because too many were in flight. */
export function isOverloaded(error: unknown): boolean {
  return reasonOf(error) === ErrorReason.OVERLOADED;
}

/**
 * On the calling side: a part of the way had no memory or no capacity left for the call. Quotas of ours
 * have the same code, and a reason.
 */
export function isExhausted(error: unknown): boolean {
  return (
    error instanceof ConnectError &&
    error.code === Code.ResourceExhausted &&
    reasonOf(error) === undefined
  );
}

/** On the calling side: the service did not answer (away, too slow, or the call was given up). */
export function isUnavailable(error: unknown): boolean {
  return error instanceof ConnectError && UNANSWERED.has(error.code);
}

const UNANSWERED: ReadonlySet<Code> = new Set([
  Code.Unavailable,
  Code.DeadlineExceeded,
  Code.Canceled,
]);

function infoOf(error: unknown) {
  return error instanceof ConnectError ? error.findDetails(ErrorInfoSchema)[0] : undefined;
}
