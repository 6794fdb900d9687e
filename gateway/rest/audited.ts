import { randomUUID } from 'node:crypto';
import type { Operation, OperationId } from '../../services/contract/operations.ts';
import type { BodyOf } from '../../services/contract/validate.ts';
import type { Caller } from '../auth/caller.ts';
import { toRefusal } from '../errors.ts';
import type { AuditEntry } from '../tenancy/audit.ts';
import type { AuditWriter } from '../tenancy/audit-writer.ts';

/** A call of the REST API that has passed every check of the gateway. */
export interface AuditedRequest {
  readonly operation: Operation;
  readonly caller: Caller;
  /** The address that it came from. */
  readonly address: string;
  readonly requestId: string;
  /** The API version that serves. */
  readonly version: string;
  /** What it is about, as far as the request says. */
  readonly subject: string;
}

/** The ids of objects in bodies, where the path names none. */
const IN_BODY: { readonly [K in OperationId]?: (body: BodyOf<K>) => string } = {
  assessDispositions: ({ items }) => items.map((item) => item.line_item_id).join(' '),
};

/** The objects that a request names in its body; undefined where it names none. */
export function namedInBody<K extends OperationId>(id: K, body: BodyOf<K>): string | undefined {
  return IN_BODY[id]?.(body);
}

/** Every operation that may change something: all but reads. */
export function isWrite(operation: Operation): boolean {
  return operation.method !== 'GET';
}

/**
 * Does a write between two entries of the audit log with the same `call`: that it was asked for, and how
 * it ended.
 *
 * The first is committed before the service is called. Whatever dies then, no change is without an entry:
 * one without its second says that the end is not known. Written only afterwards, a change would be lost
 * to the log when the gateway dies between. While the log cannot be written, nothing is changed. The
 * second is written within a second, together with others; nobody waits for it.
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

/** Of an operation that names no object: the id of the one that it made. The token of a cart is a secret. */
function createdId(operation: Operation, answer: unknown): string | undefined {
  if (operation.path.includes('{') || typeof answer !== 'object' || answer === null) {
    return undefined;
  }
  return 'id' in answer ? String(answer.id) : undefined;
}
