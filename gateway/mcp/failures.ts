import { ConnectError } from '@connectrpc/connect';
import { ErrorReason as Reason } from '../../proto/gen/rms/common/v1/error_pb.ts';
import { fieldOf, isExhausted, isUnavailable, reasonOf } from '../../services/platform/errors.ts';
import { isOutage } from '../../services/platform/outage.ts';
import { OutcomeUnknown, ToolRefusal } from './tool.ts';

/** What went wrong with a call, for the assistant: what is the matter, and what to do next. */
export interface Failure {
  /**
   * `refused`: nothing was done. `unknown`: nobody can say whether it was done.
   */
  readonly outcome: 'refused' | 'unknown';
  readonly text: string;
  /** For the log: a fault of ours or an outage; undefined for what the caller can act on. */
  readonly fault: 'outage' | 'bug' | undefined;
}

/** The one place where what an action threw becomes a tool's answer. No text of a cause leaves here. */
export function failureOf(error: unknown, o: { isWrite: boolean; requestId: string }): Failure {
  if (error instanceof ToolRefusal) return refused(error.message);
  if (error instanceof OutcomeUnknown) {
    return { outcome: 'unknown', text: error.message, fault: undefined };
  }
  const reason = reasonOf(error);
  const text = reason === undefined ? undefined : textFor(reason, error);
  if (text !== undefined) return refused(text);
  const isOver =
    isUnavailable(error) ||
    isOutage(error) ||
    isExhausted(error) ||
    reason === Reason.SHOP_NOT_CONFIGURED;
  if (isOver) return { outcome: 'unknown', text: awayText(o.isWrite), fault: 'outage' };
  return {
    outcome: 'unknown',
    text: `Something went wrong on our side. Tell the person the request id ${o.requestId}, which support asks for.`,
    fault: 'bug',
  };
}

function refused(text: string): Failure {
  return { outcome: 'refused', text, fault: undefined };
}

function awayText(isWrite: boolean): string {
  const away = 'A part of the service does not answer at the moment. Try again in a few seconds';
  return isWrite
    ? `${away}, with the same idempotency_key if you sent one; without one, read first whether it was done.`
    : `${away}.`;
}

function textFor(reason: Reason, error: unknown): string | undefined {
  const said = sentence(error);
  switch (reason) {
    case Reason.RETURN_NOT_FOUND:
      return 'This shop has no such return. Find it with search_returns.';
    case Reason.LINE_ITEM_NOT_FOUND:
      return `${said} get_return tells the line_item_id of each line. Nothing was recorded.`;
    case Reason.RETURN_TOO_LARGE:
      return `${said} Nothing was recorded.`;
    case Reason.DESTINATION_NOT_FOUND:
      return 'This shop has no such destination. list_destinations tells which there are.';
    case Reason.SUBSCRIPTION_NOT_FOUND:
      return 'This shop has no such webhook. list_webhooks tells which there are.';
    case Reason.DELIVERY_NOT_FOUND:
      return 'This shop has no such delivery. list_webhook_deliveries tells which there are.';
    case Reason.FRAUD_REPORT_NOT_FOUND:
      return 'This return has no fraud report. create_fraud_report makes one.';
    case Reason.FRAUD_REPORT_EXISTS:
      return 'This return has a fraud report already. get_fraud_report reads it.';
    case Reason.WEBHOOK_URL_REFUSED:
      return `${said} Ask the person for another address.`;
    case Reason.INVALID_FIELD:
      return `${said} Correct it and call again.`;
    case Reason.STATE_FORBIDS:
    case Reason.REVISION_CONFLICT:
    case Reason.ALREADY_OPEN:
      return `${said} Nothing was changed. Read it again to see how it stands.`;
    case Reason.QUOTA_EXCEEDED:
      return `${said} Nothing was changed.`;
    case Reason.IDEMPOTENCY_CONFLICT:
      return said;
    default:
      return undefined;
  }
}

/**
 * A service's refusal as a sentence, without the code that Connect puts before it. The name of a field
 * that it begins with stays as the assistant wrote it.
 */
function sentence(error: unknown): string {
  const text =
    error instanceof ConnectError ? error.rawMessage : error instanceof Error ? error.message : '';
  const [word = ''] = text.split(' ', 1);
  const isName = word === fieldOf(error) || /[_[]|\.\w/.test(word);
  const first = isName ? text : text.replace(/^./u, (letter) => letter.toUpperCase());
  return /[.!?]$/.test(first) ? first : `${first}.`;
}
