import { ConnectError } from '@connectrpc/connect';
import { ErrorReason as Reason } from '../proto/gen/rms/common/v1/error_pb.ts';
import { NotEligibleSchema } from '../proto/gen/rms/returns/v1/policy_pb.ts';
import type { PublicError } from '../services/contract/errors.ts';
import type { Operation, OperationId } from '../services/contract/operation.ts';
import * as errors from '../services/contract/public-errors.ts';
import { codeView } from '../services/contract/views/eligibility.ts';
import { isOutage } from '../services/platform/postgres/outage.ts';
import {
  detailOf,
  fieldOf,
  isExhausted,
  isOverloaded,
  isUnavailable,
  reasonOf,
} from '../services/platform/values/errors.ts';
import { KeySetUnavailable } from './auth/partner-tokens.ts';
import { HttpError, internalError, overloaded, unavailable } from './errors.ts';

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
  // So does the shop's commerce platform, when it answers as documented.
  if (reason === Reason.SHOP_NOT_CONFIGURED || reason === Reason.COMMERCE_FAILED) {
    return unavailable(error);
  }
  return internalError(requestId, error);
}

const WEBHOOK_WRITES: ReadonlySet<OperationId> = new Set(['createWebhook', 'updateWebhook']);
/** The operations that the state of their object may forbid: 409 with the service's text. */
const STATEFUL: ReadonlySet<OperationId> = new Set([
  ...(['recordLabel', 'updateLabel', 'recordGiftCard'] as const),
  ...(['testWebhook', 'retryDeliveries', 'previewReplay', 'startReplay'] as const),
]);

/** The key of a create whose result is gone. */
const KEY_OF_DELETED = errors.invalidField(
  'Idempotency-Key',
  'is that of a deleted webhook: send a new key to create another one',
);

/** The operations whose body may name a webhook. */
const NAMES_WEBHOOK: ReadonlySet<OperationId> = new Set(['previewReplay', 'startReplay']);

/** The operations whose body may name a destination. */
const NAMES_DESTINATION: ReadonlySet<OperationId> = new Set(['submitReturn', 'recordArrival']);

function translate(reason: Reason, error: unknown, operation: Operation): PublicError | undefined {
  switch (reason) {
    case Reason.INVALID_FIELD:
      if (operation.id !== 'submitReturn' && isPathId(fieldOf(error))) return operation.notFound;
      return invalidFrom(error);
    case Reason.LINE_ITEM_NOT_FOUND:
    case Reason.RETURN_TOO_LARGE:
    case Reason.RETURNS_AMBIGUOUS:
      return invalidFrom(error);
    case Reason.DESTINATION_NOT_FOUND:
      return NAMES_DESTINATION.has(operation.id)
        ? errors.invalidField('destination_id', 'must be the id of a destination')
        : operation.notFound;
    case Reason.NOT_ELIGIBLE:
      return notEligible(error);
    case Reason.NO_ORDER_LOOKUP:
      return errors.noOrderLookUp();
    case Reason.ORDER_NOT_FOUND:
    case Reason.RETURN_NOT_FOUND:
    case Reason.DELIVERY_NOT_FOUND:
    case Reason.REPLAY_NOT_FOUND:
    case Reason.LABEL_NOT_FOUND:
    case Reason.CART_NOT_FOUND:
      return operation.notFound;
    case Reason.SUBSCRIPTION_NOT_FOUND:
      if (operation.id === 'createWebhook') return KEY_OF_DELETED;
      return NAMES_WEBHOOK.has(operation.id)
        ? errors.invalidField('webhook_id', 'must be the id of a webhook')
        : operation.notFound;
    case Reason.FRAUD_REPORT_EXISTS:
      return errors.reportExists();
    case Reason.WEBHOOK_URL_REFUSED:
      return errors.webhookRejected(messageOf(error));
    case Reason.STATE_FORBIDS:
      if (operation.id === 'replayDelivery') return errors.notReplayable(messageOf(error));
      if (operation.id === 'cancelReturn') return errors.notCancellable(messageOf(error));
      if (operation.id === 'submitReturn') return invalidFrom(error);
      return STATEFUL.has(operation.id) ? errors.conflict(messageOf(error)) : undefined;
    case Reason.IDEMPOTENCY_CONFLICT:
      if (operation.keyed === 'required') return errors.keyReused();
      return operation.keyed ? errors.keyOfOtherContent() : undefined;
    case Reason.QUOTA_EXCEEDED:
      return WEBHOOK_WRITES.has(operation.id)
        ? errors.webhookRejected(messageOf(error))
        : undefined;
    default:
      return undefined;
  }
}

/** The lines that cannot be returned, each with its reason. */
function notEligible(error: unknown): PublicError {
  const { lines = [] } = detailOf(error, NotEligibleSchema) ?? {};
  return errors.notEligible(
    messageOf(error),
    lines.map(({ providerLineItemId, code }) => ({
      provider_line_item_id: Number(providerLineItemId),
      code: codeView(code),
    })),
  );
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
  const detail = errors.sentence(messageOf(error));
  return errors.invalid(detail, [{ field: fieldOf(error) ?? 'body', message: detail }]);
}

/** The message of an error, without the code that Connect puts before it. */
function messageOf(error: unknown): string {
  if (error instanceof ConnectError) return error.rawMessage;
  return error instanceof Error ? error.message : '';
}
