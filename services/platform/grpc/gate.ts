import {
  Code,
  ConnectError,
  createContextKey,
  type HandlerContext,
  type Interceptor,
} from '@connectrpc/connect';
import { Health } from '../../../proto/gen/grpc/health/v1/health_pb.ts';
import { actorFault } from '../actor.ts';
import { invalidField } from '../errors.ts';
import type { ServiceIdentity } from '../identity.ts';
import { MAX_ID } from '../ids.ts';
import type { Logger } from '../log.ts';
import { mayCall, mayNameActor } from './callers.ts';

/** The caller of the present call; see `callers.ts`. */
const callerKey = createContextKey('', { description: 'name of the calling process' });

/**
 * Rejects a call without a valid service token (UNAUTHENTICATED), and one that the table of callers does not list
 * (PERMISSION_DENIED), before its body is read.
 *
 * Only health is open, because Kubernetes probes carry no token.
 *
 * @param o.refused called for every rejection, for the metrics.
 */
export function identityGate(o: {
  readonly identity: ServiceIdentity;
  readonly logger: Logger;
  readonly refused: (rpc: { service: string; method: string }, code: Code) => void;
}): (context: HandlerContext) => Promise<void> {
  return async ({ service, method, requestHeader, values }) => {
    if (service.typeName === Health.typeName) return;
    const rpc = { service: service.typeName, method: method.name };
    const token = /^Bearer ([^\s]+)$/i.exec(requestHeader.get('authorization') ?? '')?.[1];
    const caller = token === undefined ? undefined : await o.identity.callerOf(token);
    if (caller === undefined) {
      o.refused(rpc, Code.Unauthenticated);
      throw new ConnectError('a valid service token is required', Code.Unauthenticated);
    }
    if (!mayCall(caller, service, method)) {
      o.refused(rpc, Code.PermissionDenied);
      o.logger.warn({ caller, ...rpc }, 'call refused: not in the table of callers');
      const text = `${caller} may not call ${rpc.method} of ${rpc.service}`;
      throw new ConnectError(text, Code.PermissionDenied);
    }
    values.set(callerKey, caller);
  };
}

/**
 * Server interceptor: rejects a request without an actor or a shop (INVALID_ARGUMENT), and one whose caller may not act
 * for that actor (PERMISSION_DENIED). Messages without these fields, such as health's, pass.
 */
export function callerInterceptor(logger: Logger): Interceptor {
  return (next) => (req) => {
    if (!req.stream) {
      const { field } = req.method.input;
      if (field.actor) {
        const actor: unknown = Reflect.get(req.message, 'actor');
        requireActor(actor);
        requireRight(req.contextValues.get(callerKey), actor, logger);
      }
      if (field.shopId) requireShop(Reflect.get(req.message, 'shopId'));
    }
    return next(req);
  };
}

function requireRight(caller: string, actor: unknown, logger: Logger): void {
  const kind: unknown = typeof actor === 'object' && actor ? Reflect.get(actor, 'kind') : undefined;
  if (mayNameActor(caller, kind)) return;
  logger.warn({ caller }, 'call refused: only the gateway names people, keys and apps');
  const text = `${caller} may not name people, API keys or partner apps as actors`;
  throw new ConnectError(text, Code.PermissionDenied);
}

function requireActor(actor: unknown): void {
  const fault = actorFault(actor);
  if (fault !== undefined) throw invalidField('actor', fault);
}

function requireShop(shopId: unknown): void {
  if (typeof shopId === 'bigint' && shopId > 0n && shopId <= MAX_ID) return;
  throw invalidField('shop_id', 'must be an id from 1 to 2^53-1');
}
