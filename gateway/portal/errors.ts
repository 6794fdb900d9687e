import { Code, ConnectError } from '@connectrpc/connect';
import pg from 'pg';
import {
  ErrorReasonSchema,
  ErrorReason as Reason,
} from '../../proto/gen/rms/common/v1/error_pb.ts';
import { FieldErrorSchema } from '../../proto/gen/rms/portal/v1/common_pb.ts';
import { isOutage } from '../../services/platform/postgres/outage.ts';
import { enumText } from '../../services/platform/values/enum-text.ts';
import {
  DomainError,
  fieldOf,
  isExhausted,
  isUnavailable,
  reasonOf,
} from '../../services/platform/values/errors.ts';
import { errorSentence } from '../error-sentence.ts';

/** An error of a portal call as the page gets it. */
export interface PortalFailure {
  readonly error: ConnectError;
  /** Undefined for errors that the user can act on; nothing was changed then. */
  readonly cause: 'bug' | 'outage' | undefined;
}

const REASON = enumText(ErrorReasonSchema);

/** What an error of a service means for the page. Reasons that are not here are bugs. */
const CODES: ReadonlyMap<Reason, Code> = new Map([
  [Reason.INVALID_FIELD, Code.InvalidArgument],
  [Reason.WEBHOOK_URL_REFUSED, Code.InvalidArgument],
  [Reason.RETURN_TOO_LARGE, Code.InvalidArgument],
  [Reason.RETURN_NOT_FOUND, Code.NotFound],
  [Reason.LINE_ITEM_NOT_FOUND, Code.NotFound],
  [Reason.DESTINATION_NOT_FOUND, Code.NotFound],
  [Reason.FRAUD_REPORT_NOT_FOUND, Code.NotFound],
  [Reason.SUBSCRIPTION_NOT_FOUND, Code.NotFound],
  [Reason.COMMERCE_CONNECTION_NOT_FOUND, Code.NotFound],
  [Reason.DELIVERY_NOT_FOUND, Code.NotFound],
  [Reason.REPLAY_NOT_FOUND, Code.NotFound],
  [Reason.STATE_FORBIDS, Code.FailedPrecondition],
  [Reason.REVISION_CONFLICT, Code.FailedPrecondition],
  [Reason.ALREADY_OPEN, Code.FailedPrecondition],
  [Reason.ORDER_NOT_FOUND, Code.NotFound],
  [Reason.NOT_ELIGIBLE, Code.FailedPrecondition],
  [Reason.NO_ORDER_LOOKUP, Code.FailedPrecondition],
  [Reason.FRAUD_REPORT_EXISTS, Code.AlreadyExists],
  [Reason.IDEMPOTENCY_CONFLICT, Code.AlreadyExists],
  [Reason.QUOTA_EXCEEDED, Code.ResourceExhausted],
]);

/** Fields with ids: when a service rejects such a value, the object does not exist. */
const ID_FIELD = /^(?:subscription|return|destination|delivery|replay)_id$/;

/**
 * Converts any error to the error of the portal's API. Texts of services are shown only for known reasons; the text of
 * an unexpected error never leaves the process.
 */
export function toConnectError(error: unknown, requestId: string): PortalFailure {
  const reason = reasonOf(error);
  const code = reason === undefined ? undefined : codeFor(reason, error);
  if (code !== undefined) return { error: shown(code, error, reason), cause: undefined };
  if (isOurs(error)) return { error, cause: undefined };
  if (hasNul(error)) {
    const text = 'A text has the character U+0000, which cannot be stored. Remove it.';
    return { error: new ConnectError(text, Code.InvalidArgument), cause: undefined };
  }
  const isTransient =
    isUnavailable(error) ||
    isOutage(error) ||
    isExhausted(error) ||
    reason === Reason.SHOP_NOT_CONFIGURED;
  if (isTransient) {
    const text = 'The service is not available at the moment. Try again in a few seconds.';
    return { error: new ConnectError(text, Code.Unavailable), cause: 'outage' };
  }
  const text = `Something went wrong on our side. Quote the request id ${requestId} to support.`;
  return { error: new ConnectError(text, Code.Internal), cause: 'bug' };
}

/** Whether PostgreSQL rejected U+0000, in a text or in JSON: no other text that JSON can carry is invalid there. */
function hasNul(error: unknown): boolean {
  return error instanceof pg.DatabaseError && (error.code === '22021' || error.code === '22P05');
}

function codeFor(reason: Reason, error: unknown): Code | undefined {
  if (reason === Reason.INVALID_FIELD && ID_FIELD.test(fieldOf(error) ?? '')) return Code.NotFound;
  // The gateway's own rules about members, keys and apps have a code and no reason.
  return CODES.get(reason) ?? (error instanceof DomainError ? error.code : undefined);
}

/** The page makes the keys. It repeats one only after a try whose answer it did not get. */
const KEY_USED =
  'An earlier try was carried out, and its answer was lost. It had other values: see what it changed before you try again.';

/** The page sends the revision that it shows with a call that pays. */
const CHANGED =
  'The return was changed in the meantime, so that something else may happen. Read what would happen now before you process it.';

function shown(code: Code, error: unknown, reason: Reason | undefined): ConnectError {
  const value = {
    field: fieldOf(error) ?? '',
    reason: reason ? REASON.toText(reason).toUpperCase() : '',
  };
  const details = [{ desc: FieldErrorSchema, value }];
  const isKeyUsed = reason === Reason.IDEMPOTENCY_CONFLICT && value.field === 'idempotency_key';
  if (reason === Reason.REVISION_CONFLICT && value.field !== 'expected_revision') {
    return new ConnectError(errorSentence(error), Code.Aborted, undefined, details);
  }
  const text =
    reason === Reason.REVISION_CONFLICT ? CHANGED : isKeyUsed ? KEY_USED : errorSentence(error);
  return new ConnectError(text, code, undefined, details);
}

/** Marks errors that the portal itself made for the page. */
const OWN = new WeakSet<ConnectError>();

/** Makes an error whose text the page shows. */
export function portalError(code: Code, text: string, field = ''): ConnectError {
  const details = field === '' ? [] : [{ desc: FieldErrorSchema, value: { field } }];
  const error = new ConnectError(text, code, undefined, details);
  OWN.add(error);
  return error;
}

function isOurs(error: unknown): error is ConnectError {
  return error instanceof ConnectError && OWN.has(error);
}
