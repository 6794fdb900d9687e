import { Code, ConnectError, type HandlerContext, type Interceptor } from '@connectrpc/connect';
import { Health } from '../../../proto/gen/grpc/health/v1/health_pb.ts';
import { MAX_ID } from '../../contract/limits.ts';
import { actorFault } from '../actor.ts';
import { invalidField } from '../errors.ts';
import type { ServiceIdentity } from '../identity.ts';

/**
 * Refuses a call without a valid service token (UNAUTHENTICATED) before its body is read.
 *
 * Only health is open: Kubernetes probes carry no token.
 *
 * @param refused told of every refusal, for the metrics.
 */
export function identityGate(
  identity: ServiceIdentity,
  refused: (rpc: { service: string; method: string }) => void,
): (context: HandlerContext) => Promise<void> {
  return async (context) => {
    if (context.service.typeName === Health.typeName) return;
    const token = /^Bearer ([^\s]+)$/i.exec(context.requestHeader.get('authorization') ?? '')?.[1];
    if (token !== undefined && (await identity.verify(token))) return;
    refused({ service: context.service.typeName, method: context.method.name });
    throw new ConnectError('a valid service token is required', Code.Unauthenticated);
  };
}

/**
 * Server interceptor: refuses a request that does not say on whose behalf it is made, or in which
 * shop (INVALID_ARGUMENT). Messages that have no such field, such as health's, pass.
 */
export function callerInterceptor(): Interceptor {
  return (next) => (req) => {
    if (!req.stream) {
      const { field } = req.method.input;
      if (field.actor) requireActor(Reflect.get(req.message, 'actor'));
      if (field.shopId) requireShop(Reflect.get(req.message, 'shopId'));
    }
    return next(req);
  };
}

function requireActor(actor: unknown): void {
  const fault = actorFault(actor);
  if (fault !== undefined) throw invalidField('actor', fault);
}

function requireShop(shopId: unknown): void {
  if (typeof shopId === 'bigint' && shopId > 0n && shopId <= MAX_ID) return;
  throw invalidField('shop_id', 'must be an id from 1 to 2^53-1');
}
