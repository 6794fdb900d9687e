import { ConnectError } from '@connectrpc/connect';
import { ErrorReason as Reason } from '../proto/gen/rms/common/v1/error_pb.ts';
import { PROBLEM_CODES as CODE, type PublicError } from '../services/contract/errors.ts';
import type { Operation, OperationId } from '../services/contract/operation.ts';
import {
  fieldOf,
  isExhausted,
  isOverloaded,
  isUnavailable,
  reasonOf,
} from '../services/platform/errors.ts';
import { isOutage } from '../services/platform/outage.ts';
import { KeySetUnavailable } from './auth/partner-tokens.ts';
import { HttpError, internalError, messageError, overloaded, unavailable } from './errors.ts';

/**
 * Converts any error to a REST response.
 *
 * An error of the gateway is returned unchanged. The reason of a service's error is translated for the operation; callers
 * see its text only for some reasons. An unavailable service becomes a 503, and any other error a 500.
 */
export function toHttpError(error: unknown, operation: Operation, requestId: string): HttpError {
  if (error instanceof HttpError) return error;
  if (isOverloaded(error)) return overloaded(error);
  const reason = reasonOf(error);
  const translated = reason === undefined ? undefined : translate(reason, error, operation);
  if (translated) return new HttpError(translated, { cause: error });
  const isTransient = isUnavailable(error) || isOutage(error) || isExhausted(error);
  if (isTransient || error instanceof KeySetUnavailable) {
    return unavailable(error);
  }
  // The shop was created only in part. When an operator runs `shop create` again, the request succeeds.
  if (reason === Reason.SHOP_NOT_CONFIGURED) return unavailable(error);
  return internalError(requestId, error);
}

const WEBHOOK_WRITES: ReadonlySet<OperationId> = new Set(['createWebhook', 'updateWebhook']);
/** The operations that the state of their object may forbid: 409 with the service's text. */
const STATEFUL: ReadonlySet<OperationId> = new Set([
  ...(['recordLabel', 'updateLabel', 'recordGiftCard'] as const),
  ...(['testWebhook', 'previewReplay', 'startReplay'] as const),
]);

/** The operations whose body may name a webhook. */
const NAMES_WEBHOOK: ReadonlySet<OperationId> = new Set(['previewReplay', 'startReplay']);

function translate(reason: Reason, error: unknown, operation: Operation): PublicError | undefined {
  switch (reason) {
    case Reason.INVALID_FIELD:
      if (isPathId(fieldOf(error))) return operation.notFound;
      return invalidFrom(error);
    case Reason.LINE_ITEM_NOT_FOUND:
    case Reason.RETURN_TOO_LARGE:
      return invalidFrom(error);
    case Reason.RETURN_NOT_FOUND:
    case Reason.DESTINATION_NOT_FOUND:
    case Reason.DELIVERY_NOT_FOUND:
    case Reason.REPLAY_NOT_FOUND:
    case Reason.LABEL_NOT_FOUND:
    case Reason.CART_NOT_FOUND:
      return operation.notFound;
    case Reason.SUBSCRIPTION_NOT_FOUND:
      if (operation.id === 'createWebhook') return invalidKey('is that of a deleted webhook');
      return NAMES_WEBHOOK.has(operation.id) ? noSuchWebhook() : operation.notFound;
    case Reason.FRAUD_REPORT_EXISTS:
      return reportExists();
    case Reason.WEBHOOK_URL_REFUSED:
      return webhookRejected(messageOf(error));
    case Reason.STATE_FORBIDS:
      if (operation.id === 'replayDelivery') return notReplayable(messageOf(error));
      return STATEFUL.has(operation.id) ? conflict(messageOf(error)) : undefined;
    case Reason.IDEMPOTENCY_CONFLICT:
      return operation.keyed ? invalidKey('was used with other content') : undefined;
    case Reason.QUOTA_EXCEEDED:
      return WEBHOOK_WRITES.has(operation.id) ? webhookRejected(messageOf(error)) : undefined;
    default:
      return undefined;
  }
}

/** The request fields that contain ids from the path. If a service rejects such an id, the object does not exist. */
const PATH_ID_FIELDS: ReadonlySet<string> = new Set([
  'subscription_id',
  'label_id',
  'replay_id',
  'destination_id',
  'return_id',
  'order_id',
  'order_name',
  'provider_order_id',
]);

function isPathId(field: string | undefined): boolean {
  return field !== undefined && PATH_ID_FIELDS.has(field);
}

function invalidFrom(error: unknown): PublicError {
  const detail = sentence(messageOf(error));
  const errors = [{ field: fieldOf(error) ?? 'body', message: detail }];
  return messageError(422, CODE.invalid, { title: 'Unprocessable Content', detail, errors });
}

/** A webhook in the body that does not exist in this shop. */
function noSuchWebhook(): PublicError {
  const detail = 'webhook_id must be the id of a webhook.';
  const errors = [{ field: 'webhook_id', message: detail }];
  return messageError(422, CODE.invalid, { title: 'Unprocessable Content', detail, errors });
}

/** A key that cannot have the result of this request. The draft of the header has 422 for it. */
function invalidKey(rule: string): PublicError {
  const field = 'Idempotency-Key';
  const detail = `${field} ${rule}.`;
  const errors = [{ field, message: detail }];
  return messageError(422, CODE.invalid, { title: 'Unprocessable Content', detail, errors });
}

function reportExists(): PublicError {
  const detail = 'A fraud report already exists for this return.';
  return {
    status: 409,
    body: { errors: { message: detail } },
    problem: { code: CODE.fraudReportExists, title: 'Conflict', detail },
  };
}

/** The state of the object does not allow the request. */
function conflict(text: string): PublicError {
  const detail = sentence(capitalized(text));
  return {
    status: 409,
    body: { errors: { message: detail } },
    problem: { code: CODE.conflict, title: 'Conflict', detail },
  };
}

function webhookRejected(text: string): PublicError {
  const detail = sentence(text);
  return {
    status: 422,
    body: { errors: { code: CODE.webhookRefused, message: detail } },
    problem: { code: CODE.webhookRefused, title: 'Unprocessable Content', detail },
  };
}

function notReplayable(text: string): PublicError {
  const detail = sentence(capitalized(text));
  return {
    status: 409,
    body: { errors: { code: CODE.notReplayable, message: detail } },
    problem: { code: CODE.notReplayable, title: 'Conflict', detail },
  };
}

/** The message of an error, without the code that Connect puts before it. */
function messageOf(error: unknown): string {
  if (error instanceof ConnectError) return error.rawMessage;
  return error instanceof Error ? error.message : '';
}

function capitalized(text: string): string {
  return text.replace(/^./, (first) => first.toUpperCase());
}

function sentence(text: string): string {
  return /[.!?]$/.test(text) ? text : `${text}.`;
}
