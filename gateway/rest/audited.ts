import { randomUUID } from 'node:crypto';
import type { Operation, OperationId } from '../../services/contract/operations.ts';
import type { BodyOf } from '../../services/contract/validate.ts';
import type { Caller } from '../auth/caller.ts';
import { toRefusal } from '../errors.ts';
import type { AuditEntry } from '../tenancy/audit.ts';
import type { AuditWriter } from '../tenancy/audit-writer.ts';

/** A REST request that has passed every check of the gateway. */
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
}

/** Reads the ids of objects from bodies, for operations without an id in the path. */
const IN_BODY: { readonly [K in OperationId]?: (body: BodyOf<K>) => string } = {
  assessDispositions: ({ items }) => items.map((item) => item.line_item_id).join(' '),
};

/** The ids of the objects in a request body; undefined when the operation has none there. */
export function namedInBody<K extends OperationId>(id: K, body: BodyOf<K>): string | undefined {
  return IN_BODY[id]?.(body);
}

/** Whether an operation may change something. */
export function isWrite(operation: Operation): boolean {
  return operation.method !== 'GET';
}

/**
 * Runs a write between two audit entries with the same `call`: the request and its outcome.
 *
 * The first entry is committed before the service is called, so every change has an entry, even if a process dies.
 * A first entry without a second means that the outcome is unknown. A single entry afterwards would be lost if the
 * gateway died in between. While the audit log cannot be written, nothing is changed. The second entry is written
 * within a second, together with others; the response does not wait for it.
 */
export async function audited<T>(
  audit: AuditWriter,
  request: AuditedRequest,
  work: () => Promise<T>,
): Promise<T> {
  const { operation } = request;
  if (!isWrite(operation)) return work();
  const call = randomUUID();
  await audit.write(entryOf(request, { call, phase: 'asked' }));
  try {
    const answer = await work();
    const phase = isRefusal(answer) ? 'refused' : 'done';
    const subject = createdId(operation, answer) ?? request.subject;
    audit.writeSoon(
      entryOf({ ...request, subject }, { call, phase, status: operation.success.status }),
    );
    return answer;
  } catch (error) {
    const { status } = toRefusal(error, operation, request.requestId).error;
    const phase = status < 500 ? 'refused' : 'unknown';
    audit.writeSoon(entryOf(request, { call, phase, status }));
    throw error;
  }
}

function entryOf(request: AuditedRequest, detail: NonNullable<AuditEntry['detail']>): AuditEntry {
  const { operation, caller, address, requestId, version, subject } = request;
  return {
    shopId: caller.shopId,
    by: { actor: caller.actor, source: address, requestId },
    action: `rest.${operation.id}`,
    subject,
    detail: { ...detail, version },
  };
}

/** A refusal inside a 200 (interface: Process return). */
function isRefusal(answer: unknown): boolean {
  return typeof answer === 'object' && answer !== null && 'errors' in answer;
}

/** The id of the created object, for operations without an id in the path. A cart's token is secret and left out. */
function createdId(operation: Operation, answer: unknown): string | undefined {
  if (operation.path.includes('{') || typeof answer !== 'object' || answer === null) {
    return undefined;
  }
  return 'id' in answer ? String(answer.id) : undefined;
}
