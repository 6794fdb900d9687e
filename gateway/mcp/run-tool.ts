import type { CallToolResult } from '@modelcontextprotocol/server';
import { ErrorReason as Reason } from '../../proto/gen/rms/common/v1/error_pb.ts';
import { isOutage } from '../../services/platform/postgres/outage.ts';
import type { Queryable } from '../../services/platform/postgres/postgres.ts';
import type { Logger } from '../../services/platform/telemetry/log.ts';
import { isExhausted, isUnavailable, reasonOf } from '../../services/platform/values/errors.ts';
import { changeNotes } from '../actions/context.ts';
import { permissionsFor } from '../actions/rights.ts';
import type { RejectionReason } from '../auth/rejection.ts';
import { errorSentence } from '../error-sentence.ts';
import { RESPONSE_BYTES_MAX } from '../http/body-budget.ts';
import type { AuditEntry } from '../tenancy/audit.ts';
import type { AuditWriter } from '../tenancy/audit-writer.ts';
import { auditedCall } from '../tenancy/audited-call.ts';
import { isPermitted, mayUse, type Rights } from './catalogue.ts';
import {
  abandonCall,
  type Claim,
  claimCall,
  finishCall,
  hashOfRequest,
  type KeyedCall,
  releaseCall,
} from './idempotency.ts';
import {
  type PreparedCall,
  type Tool,
  type ToolContext,
  ToolError,
  type ToolOutput,
} from './tool.ts';

export interface ToolRunner {
  readonly pool: Queryable;
  readonly audit: AuditWriter;
  readonly logger: Logger;
}

interface ToolCall {
  readonly tool: Tool;
  readonly args: unknown;
  readonly context: ToolContext;
  readonly requestId: string;
  /** The IP address of the client, for the audit log. */
  readonly source: string;
}

/**
 * Checks the permission, then the arguments, and then runs the tool. A failure is a result with `isError` and not a
 * protocol error, because assistants can only act on results. Never rejects.
 */
export async function runTool(runner: ToolRunner, call: ToolCall): Promise<CallToolResult> {
  const { tool, context } = call;
  if (!mayUse(context.user, tool)) {
    logDenied(runner.logger, call);
    return errorResult(unauthorizedText(context.user, tool));
  }
  const prepared = tool.prepare(call.args);
  if (!prepared.ok) {
    return errorResult(`Invalid arguments: ${prepared.problems.join(' ')}`);
  }
  const isWrite = prepared.call.subject !== undefined;
  try {
    if (!isWrite) return successResult(await prepared.call.run(context));
    return successResult(await write(runner, call, prepared.call));
  } catch (error) {
    const failure = failureOf(error, { isWrite, requestId: call.requestId });
    const event = { err: error, tool: tool.name, requestId: call.requestId };
    if (failure.cause === 'bug') runner.logger.error(event, 'tool call failed');
    if (failure.cause === 'outage')
      runner.logger.warn(event, 'tool call failed: service unavailable');
    return errorResult(failure.text);
  }
}

/** Logs a missing permission. The access log does not show it: the HTTP request succeeded with status 200. */
function logDenied(logger: Logger, { tool, context, requestId, source }: ToolCall): void {
  const { userId, role } = context.user;
  const who = { address: source, shopId: context.shopId, actorId: String(userId), role };
  const refused: RejectionReason = 'permission missing';
  logger.warn({ tool: tool.name, requestId, ...who, refused }, 'tool call refused');
}

/**
 * Runs and audits a write. With an idempotency key, the output is stored and the write is executed at most once: each
 * repeat sends the same `callId`, and the service executes a `callId` once.
 */
async function write(
  runner: ToolRunner,
  call: ToolCall,
  prepared: PreparedCall,
): Promise<ToolOutput> {
  const { context } = call;
  const key = prepared.idempotencyKey;
  const outcomeOf = (error: unknown) =>
    failureOf(error, { isWrite: true, requestId: call.requestId }).outcome;
  if (key === undefined) {
    return audited(runner, call, { prepared, context, outcomeOf });
  }
  const { pool } = runner;
  const keyed: KeyedCall = {
    shopId: context.shopId,
    userId: context.user.userId,
    key,
    tool: call.tool.name,
    requestHash: hashOfRequest(prepared.input),
  };
  const claim = await claimCall(pool, keyed);
  if (claim.kind === 'done') return claim.output;
  if (claim.kind !== 'claimed') throw new ToolError(claimedText(claim));
  const { isRepeat, callId, token } = claim;
  const held = { ...keyed, token };
  try {
    const keyedContext = { ...context, callId };
    const output = await audited(runner, call, { prepared, context: keyedContext, outcomeOf });
    await finishCall(pool, held, output);
    return output;
  } catch (error) {
    // When this call is a repeat, the earlier call may still be running. Keep its claim, so that the service recognizes
    // the next repeat.
    if (outcomeOf(error) === 'refused' && !isRepeat) await releaseCall(pool, held);
    else await abandonCall(pool, held);
    throw error;
  }
}

function claimedText(claim: Exclude<Claim, { kind: 'claimed' | 'done' }>): string {
  return claim.kind === 'running'
    ? `A call with this idempotency_key is still running, or its result was lost. Repeat this call in a few seconds to get the result. If the result was lost, a repeat after ${claim.endsInS} seconds determines the outcome. Do not use another key before that.`
    : 'This idempotency_key was used for another call within the last 24 hours. Use a new key for each action.';
}

function audited(
  { audit }: ToolRunner,
  { tool, context: { user }, source, requestId }: ToolCall,
  {
    prepared,
    context,
    outcomeOf,
  }: {
    prepared: PreparedCall;
    context: ToolContext;
    outcomeOf: (error: unknown) => Failure['outcome'];
  },
): Promise<ToolOutput> {
  const { app, clientId, role, selfName } = user;
  const entry: AuditEntry = {
    shopId: context.shopId,
    by: { actor: context.actor, source, ...(requestId !== '' && { requestId }) },
    action: `mcp.${tool.name}`,
    subject: prepared.subject ?? '',
    detail: {
      role,
      client_id: clientId,
      ...(app !== null && { app }),
      ...(selfName !== null && { calls_itself: selfName }),
      idempotency_key: prepared.idempotencyKey !== undefined,
    },
  };
  const { noteChanges, detail } = changeNotes();
  return auditedCall(
    { open: audit.open, end: audit.endNow },
    entry,
    () => prepared.run({ ...context, noteChanges }),
    (outcome) =>
      outcome.status === 'fulfilled'
        ? { phase: 'done', detail: detail() }
        : { phase: outcomeOf(outcome.reason) },
  );
}

/** The error text for a missing permission. One of the tool's permissions is enough (interface: Permissions). */
function unauthorizedText({ role }: Rights, tool: Tool): string {
  if (isPermitted(role, tool)) {
    return `Unauthorized: ${tool.name} changes something, and the user allowed this assistant only to read. Do not try again. To allow it, the user must first disconnect this assistant in the portal, then connect it again and choose everything.`;
  }
  const needed = permissionsFor(tool.right).join(' or ');
  return `Unauthorized: ${tool.name} needs the permission ${needed}, which the signed-in user does not have in this shop. Do not try again. An owner or admin of the shop can change the user's role in the portal, under Team and roles.`;
}

/** A result up to this length is never too large for a response. Characters. */
const SHORT = 1024 * 1024;
/** Maximum size of the other parts of a response. Bytes. */
const ENVELOPE = 64 * 1024;
const TOO_LARGE = `The result is larger than ${RESPONSE_BYTES_MAX / 1024 / 1024} MiB, so it cannot be sent. Request detail summary, or tell the user to read the return over the REST API.`;

/**
 * Returns a result, or an error when it is too large for any response: after a 429 the assistant would call again and
 * again.
 */
function successResult(output: ToolOutput): CallToolResult {
  const text = JSON.stringify(output);
  if (text.length > SHORT && responseBytes(text) > RESPONSE_BYTES_MAX)
    return errorResult(TOO_LARGE);
  return { content: [{ type: 'text', text }], structuredContent: output };
}

/**
 * The size of a response. It has the result twice: as an object, and as a text, in which quotes are escaped once more.
 */
function responseBytes(text: string): number {
  return Buffer.byteLength(text) + Buffer.byteLength(JSON.stringify(text)) + ENVELOPE;
}

function errorResult(text: string): CallToolResult {
  return { content: [{ type: 'text', text }], isError: true };
}

/** What the assistant, the audit log and the log get about a failed call. */
interface Failure {
  /** The outcome in the audit log. `refused`: nothing was changed. `unknown`: the change may have been made. */
  readonly outcome: 'refused' | 'unknown';
  /** For the assistant: the problem and the next step. */
  readonly text: string;
  /** For the log; undefined for failures that the assistant can act on. */
  readonly cause: 'outage' | 'bug' | undefined;
}

/** Describes an error of an action for the assistant. The texts of unexpected errors are never included. */
function failureOf(error: unknown, o: { isWrite: boolean; requestId: string }): Failure {
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
    case Reason.ORDER_NOT_FOUND:
      return 'The commerce platform of this shop has no such order.';
    case Reason.NOT_ELIGIBLE:
      return `${message} Nothing was changed. check_eligibility says what may be returned.`;
    case Reason.NO_ORDER_LOOKUP:
      return `${message} Nothing was changed. Tell the user.`;
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
