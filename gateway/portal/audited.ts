import { isMessage } from '@bufbuild/protobuf';
import type { AuditWriter } from '../tenancy/audit-writer.ts';
import { auditedCall } from '../tenancy/audited-call.ts';
import type { PortalCall } from './call.ts';
import { toConnectError } from './errors.ts';

/** Runs a call of the portal as an {@link auditedCall}. */
export async function audited<T>(
  audit: AuditWriter,
  {
    call,
    action,
    request,
  }: { readonly call: PortalCall; readonly action: string; readonly request: object },
  work: () => Promise<{ readonly result: T; readonly message: object | undefined }>,
): Promise<T> {
  const { session, actor, from, changes } = call;
  const entry = {
    shopId: session.shopId,
    by: { actor, ...from },
    action,
    subject: subjectOf(request),
    detail: { role: session.role, session: session.id },
  };
  const { result } = await auditedCall(
    { open: audit.open, end: audit.endNow },
    entry,
    work,
    (outcome) => {
      const detail = changes.detail();
      if (outcome.status === 'rejected') {
        return { phase: toConnectError(outcome.reason, '').cause ? 'unknown' : 'refused', detail };
      }
      const { message } = outcome.value;
      return {
        phase: message && isRefused(message) ? 'refused' : 'done',
        ...(message && entry.subject === '' && { subject: createdId(message) }),
        detail,
      };
    },
  );
  return result;
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
