import { Code, ConnectError, type Interceptor } from '@connectrpc/connect';
import { forCaller } from '../../services/platform/rpc/caller.ts';
import type { Logger } from '../../services/platform/telemetry/log.ts';
import { permissionsFor } from '../actions/rights.ts';
import type { AuditWriter } from '../tenancy/audit-writer.ts';
import { audited } from './audited.ts';
import { CALL, type PortalCall } from './call.ts';
import { portalError, toConnectError } from './errors.ts';
import { entryOf, mayCall, nameOf } from './methods.ts';

export interface InterceptorParts {
  readonly audit: AuditWriter;
  readonly logger: Logger;
}

/**
 * The only interceptor of the portal. It rejects a method that the user's role may not call, and a method that does not
 * say which roles may call it. It adds the entries of the audit log, and makes every error readable for users.
 */
export function portalInterceptor(o: InterceptorParts): Interceptor {
  return (next) => async (req) => {
    const call = req.contextValues.get(CALL);
    const method = nameOf(req.method);
    try {
      if (!call) throw portalError(Code.Unauthenticated, 'Sign in first.');
      requireAccess(o.logger, call, req.method);
      const action = entryOf(req.method)?.audit?.[0];
      const work = () => forCaller(req.signal, () => next(req));
      if (action === undefined || req.stream) return await work();
      return await audited(o.audit, { call, action, request: req.message }, async () => {
        const response = await work();
        return { result: response, message: response.stream ? undefined : response.message };
      });
    } catch (error) {
      const requestId = call?.from.requestId ?? '';
      const { error: shown, cause } = toConnectError(error, requestId);
      const event = { err: error, method, requestId };
      if (cause === 'outage' && hasLeft(req.signal)) {
        o.logger.debug(event, 'portal call cancelled: the page was left');
        throw shown;
      }
      if (cause === 'bug') o.logger.error(event, 'portal call failed');
      if (cause === 'outage') o.logger.warn(event, 'portal call failed: service unavailable');
      throw shown;
    }
  };
}

/** Whether the browser ended the call, such as when its user leaves a page that loads. A deadline that passed is not that. */
function hasLeft({ aborted, reason }: AbortSignal): boolean {
  return aborted && !(reason instanceof ConnectError && reason.code === Code.DeadlineExceeded);
}

function requireAccess(
  logger: Logger,
  { session, from }: PortalCall,
  method: Parameters<typeof mayCall>[1],
): void {
  if (mayCall(session.role, method)) return;
  const who = { shopId: session.shopId, actorId: String(session.userId), role: session.role };
  logger.warn(
    { method: nameOf(method), ...from, ...who, refused: 'permission missing' },
    'portal call refused',
  );
  const entry = entryOf(method);
  const permissions = entry ? permissionsFor(entry.right) : [];
  const text =
    permissions.length === 0
      ? 'Nobody may call this method.'
      : `Your role (${session.role}) does not have the permission ${permissions.join(' or ')}. Ask an owner or admin of the shop.`;
  throw portalError(Code.PermissionDenied, text);
}
