import { randomUUID } from 'node:crypto';
import { isMessage } from '@bufbuild/protobuf';
import type { AuditWriter } from '../tenancy/audit-writer.ts';
import type { PortalCall } from './call.ts';
import { toConnectError } from './errors.ts';

/**
 * Runs a call between two audit entries with the same `call`: the request and its outcome, as for the REST API and for
 * assistants.
 *
 * The first entry is committed before the work, so that every change has an entry even if the process dies. While the
 * audit log cannot be written, nothing is changed.
 */
export async function audited<T>(
  audit: AuditWriter,
  {
    call,
    action,
    request,
  }: { readonly call: PortalCall; readonly action: string; readonly request: object },
  work: () => Promise<{ readonly result: T; readonly message: object | undefined }>,
): Promise<T> {
  const id = randomUUID();
  const { session, actor, from, changes } = call;
  const entry = (phase: string, subject: string) => ({
    shopId: session.shopId,
    by: { actor, ...from },
    action,
    subject,
    detail: { call: id, phase, role: session.role, session: session.id, ...changes.detail() },
  });
  const subject = subjectOf(request);
  await audit.write(entry('asked', subject));
  try {
    const { result, message } = await work();
    const created = message && subject === '' ? createdId(message) : subject;
    audit.writeSoon(entry(message && isRefused(message) ? 'refused' : 'done', created));
    return result;
  } catch (error) {
    audit.writeSoon(entry(toConnectError(error, '').cause ? 'unknown' : 'refused', subject));
    throw error;
  }
}

/** The fields of requests that name an object. At most one of them is in a request that changes something. */
const ID_FIELDS = [
  'returnId',
  'subscriptionId',
  'deliveryId',
  'replayId',
  'keyId',
  'clientId',
  'assistantId',
  'userId',
  'invitationId',
  'destinationId',
  'sessionId',
  'shopId',
  'version',
];

/** The id of the object that a request names; empty when it names none. */
function subjectOf(request: object): string {
  for (const field of ID_FIELDS) {
    const value: unknown = Reflect.get(request, field);
    if (value !== undefined && value !== '' && String(value) !== '0') return String(value);
  }
  return '';
}

/** The id of the first object in a response. */
function createdId(response: object): string {
  for (const value of Object.values(response)) {
    if (!isMessage(value)) continue;
    const id: unknown = Reflect.get(value, 'id') ?? Reflect.get(value, 'userId');
    if (id !== undefined) return String(id);
  }
  return '';
}

/** Whether a response says that nothing was done. */
function isRefused(response: object): boolean {
  return Reflect.get(response, 'result')?.case === 'refused';
}
