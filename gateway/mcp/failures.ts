import { ErrorReason as Reason } from '../../proto/gen/rms/common/v1/error_pb.ts';
import { isExhausted, isUnavailable, reasonOf } from '../../services/platform/errors.ts';
import { isOutage } from '../../services/platform/outage.ts';
import { errorSentence } from '../error-sentence.ts';
import { ToolError } from './tool.ts';

/** What the assistant, the audit log and the log get about a failed call. */
export interface Failure {
  /** The outcome in the audit log. `refused`: nothing was changed. `unknown`: the change may have been made. */
  readonly outcome: 'refused' | 'unknown';
  /** For the assistant: the problem and the next step. */
  readonly text: string;
  /** For the log; undefined for failures that the assistant can act on. */
  readonly cause: 'outage' | 'bug' | undefined;
}

/** Describes an error of an action for the assistant. The texts of unexpected errors are never included. */
export function failureOf(error: unknown, o: { isWrite: boolean; requestId: string }): Failure {
  if (error instanceof ToolError) return rejected(error.message);
  const reason = reasonOf(error);
  const text = reason === undefined ? undefined : textFor(reason, error);
  if (text !== undefined) return rejected(text);
  const isUnavailableNow =
    isUnavailable(error) ||
    isOutage(error) ||
    isExhausted(error) ||
    reason === Reason.SHOP_NOT_CONFIGURED;
  if (isUnavailableNow)
    return { outcome: 'unknown', text: unavailableText(o.isWrite), cause: 'outage' };
  return {
    outcome: 'unknown',
    text: `Something went wrong on our side. Give the user the request id ${o.requestId} for support.`,
    cause: 'bug',
  };
}

function rejected(text: string): Failure {
  return { outcome: 'refused', text, cause: undefined };
}

function unavailableText(isWrite: boolean): string {
  const text = 'The service is not available at the moment. Try again in a few seconds';
  return isWrite
    ? `${text}, with the same idempotency_key if you sent one. Without a key, first read whether the change was made.`
    : `${text}.`;
}

function textFor(reason: Reason, error: unknown): string | undefined {
  const message = errorSentence(error);
  switch (reason) {
    case Reason.RETURN_NOT_FOUND:
      return 'This shop has no such return. Find it with search_returns.';
    case Reason.LINE_ITEM_NOT_FOUND:
      return `${message} get_return returns the line_item_id of each line. Nothing was recorded.`;
    case Reason.RETURN_TOO_LARGE:
      return `${message} Nothing was recorded.`;
    case Reason.DESTINATION_NOT_FOUND:
      return 'This shop has no such destination. list_destinations returns the existing ones.';
    case Reason.SUBSCRIPTION_NOT_FOUND:
      return 'This shop has no such webhook. list_webhooks returns the existing ones.';
    case Reason.DELIVERY_NOT_FOUND:
      return 'This shop has no such delivery. list_webhook_deliveries returns the existing ones.';
    case Reason.REPLAY_NOT_FOUND:
      return 'This shop has no such replay. list_webhook_replays returns the existing ones.';
    case Reason.FRAUD_REPORT_NOT_FOUND:
      return 'This return has no fraud report. create_fraud_report creates one.';
    case Reason.FRAUD_REPORT_EXISTS:
      return 'This return already has a fraud report. get_fraud_report reads it.';
    case Reason.WEBHOOK_URL_REFUSED:
      return `${message} Ask the user for another address.`;
    case Reason.INVALID_FIELD:
      return `${message} Correct it and call again.`;
    case Reason.STATE_FORBIDS:
    case Reason.REVISION_CONFLICT:
    case Reason.ALREADY_OPEN:
      return `${message} Nothing was changed. Read the object again to see its current state.`;
    case Reason.QUOTA_EXCEEDED:
      return `${message} Nothing was changed.`;
    case Reason.IDEMPOTENCY_CONFLICT:
      return message;
    default:
      return undefined;
  }
}
