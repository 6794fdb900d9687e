import type { Operation, OperationId } from '../../services/contract/operation.ts';
import type { BodyOf } from '../../services/contract/validate/validate.ts';
import type { changeNotes } from '../actions/context.ts';
import type { Caller } from '../auth/caller.ts';
import { toHttpError } from '../service-errors.ts';
import type { AuditWriter } from '../tenancy/audit-writer.ts';
import { auditedCall } from '../tenancy/audited-call.ts';

/** A REST request that has passed all checks of the gateway. */
export interface AuditedRequest {
  readonly operation: Operation;
  readonly caller: Caller;
  /** The IP address of the client. */
  readonly address: string;
  readonly requestId: string;
  /** The API version that serves the request. */
  readonly version: string;
  /** The ids of the objects in the request; empty when there are none. */
  readonly subject: string;
  /** What the request has changed so far. */
  readonly changes: Pick<ReturnType<typeof changeNotes>, 'detail'>;
}

/** For operations without an id in the path: reads the ids of the objects from the body. */
const IDS_IN_BODY: { readonly [K in OperationId]?: (body: BodyOf<K>) => string } = {
  gradeItems: ({ items }) => items.map((item) => item.line_item_id).join(' '),
  recordArrival: ({ return_id }) => (typeof return_id === 'number' ? `${return_id}` : ''),
  assessDispositions: ({ items }) => items.map((item) => item.line_item_id).join(' '),
};

/** Returns the ids of the objects in a request body; undefined when the operation has none there. */
export function idsInBody<K extends OperationId>(id: K, body: BodyOf<K>): string | undefined {
  return IDS_IN_BODY[id]?.(body);
}

/** Whether an operation may change something or returns a secret. */
export function isAudited(operation: Operation): boolean {
  return operation.method !== 'GET' || operation.reveals === true;
}

/** Runs a write, or a read of a secret, as an {@link auditedCall}. */
export function audited<T>(
  audit: AuditWriter,
  request: AuditedRequest,
  work: () => Promise<T>,
): Promise<T> {
  const { operation, caller, address, requestId, version, subject, changes } = request;
  if (!isAudited(operation)) return work();
  const entry = {
    shopId: caller.shopId,
    by: { actor: caller.actor, source: address, requestId },
    action: `rest.${operation.id}`,
    subject,
    detail: { version },
  };
  return auditedCall(audit, entry, work, (outcome) => {
    if (outcome.status === 'rejected') {
      const { status } = toHttpError(outcome.reason, operation, requestId).error;
      const phase = status < 500 ? 'refused' : 'unknown';
      return { phase, detail: { status, ...changes.detail() } };
    }
    const created = createdId(operation, outcome.value);
    return {
      phase: isRejection(outcome.value) ? 'refused' : 'done',
      ...(created !== undefined && { subject: created }),
      detail: { status: operation.success.status, ...changes.detail() },
    };
  });
}

/** Whether a response with status 200 says that the service rejected the return (interface: Process return). */
function isRejection(result: unknown): boolean {
  return typeof result === 'object' && result !== null && 'errors' in result;
}

/**
 * The id of the created object, for operations without an id in the path. Undefined for a cart, because its token is a
 * secret.
 */
function createdId(operation: Operation, result: unknown): string | undefined {
  if (operation.path.includes('{') || typeof result !== 'object' || result === null) {
    return undefined;
  }
  if ('id' in result) return String(result.id);
  // An arrival is one of a return.
  return 'return_id' in result ? String(result.return_id) : undefined;
}
