import {
  Code,
  ConnectError,
  createContextKey,
  type HandlerContext,
  type Interceptor,
} from '@connectrpc/connect';
import { Health } from '../../../proto/gen/grpc/health/v1/health_pb.ts';
import type { ServiceIdentity } from '../security/identity.ts';
import type { Logger } from '../telemetry/log.ts';
import { logSeldom } from '../telemetry/log-seldom.ts';
import { brokenActorRule } from '../values/actor.ts';
import { invalidField } from '../values/errors.ts';
import { MAX_ID } from '../values/ids.ts';
import { mayCall, mayNameActor } from './callers.ts';
import type { Rpc } from './instrumentation.ts';
import { hasMeshIdentity, type MeshHeader } from './mesh.ts';
import { SESSION } from './server.ts';

/** The name of the caller of the current call; see `callers.ts`. */
const callerKey = createContextKey('', { description: 'name of the calling process' });

/** For a process that reads its token only once, or whose account is not configured. */
const NO_TOKEN =
  'a valid service token is required: authorization: Bearer <token>. Read the token for each call, because it expires. Its account must be in SERVICE_CALLERS';

/** For a peer that has no proxy, or whose proxy is not one of this mesh. */
const NO_IDENTITY = 'no identity of the mesh: its proxies must carry the call, at both ends';

const NOT_VERIFIED = 'service tokens cannot be verified';
/** Interval of the log lines about tokens that cannot be verified, and about peers. Milliseconds. */
const LOG_EVERY_MS = 10_000;

/**
 * Creates a check of calls that runs before the body is read. It throws UNAUTHENTICATED for a call without an identity
 * of the mesh, if there is a mesh, and for one without a valid service token. It throws PERMISSION_DENIED for a call that
 * the table in `callers.ts` does not allow. It throws UNAVAILABLE and logs why when this process cannot verify tokens,
 * for example because it cannot read the keys.
 *
 * Calls of the health service need no token, because the probes of Kubernetes send none. Returns whether the call had one.
 *
 * @param o.onRejected called for every rejected call, for the metrics.
 */
export function createAuthorizer(o: {
  readonly identity: ServiceIdentity;
  readonly logger: Logger;
  readonly meshHeader?: MeshHeader | undefined;
  readonly onRejected: (rpc: Rpc, code: Code) => void;
}): (context: HandlerContext) => Promise<boolean> {
  const seldom = logSeldom(LOG_EVERY_MS);
  const seldomOfPeers = logSeldom(LOG_EVERY_MS);
  return async ({ service, method, requestHeader, values }) => {
    const rpc = { service: service.typeName, method: method.name };
    const { remoteAddress, localAddress } = values.get(SESSION)?.socket ?? {};
    const peer = { remoteAddress, localAddress };
    if (o.meshHeader && !hasMeshIdentity(o.meshHeader, requestHeader, peer)) {
      o.onRejected(rpc, Code.Unauthenticated);
      seldomOfPeers((calls) => o.logger.warn({ ...peer, ...rpc, calls }, NO_IDENTITY));
      throw new ConnectError(NO_IDENTITY, Code.Unauthenticated);
    }
    if (service.typeName === Health.typeName) return false;
    const token = /^Bearer +([^\s]+)$/i.exec(requestHeader.get('authorization') ?? '')?.[1];
    const verifying = token === undefined ? undefined : o.identity.callerOf(token);
    const caller = await verifying?.catch((error: unknown) => {
      o.onRejected(rpc, Code.Unavailable);
      seldom((calls) => o.logger.error({ err: error, calls }, NOT_VERIFIED));
      throw new ConnectError(NOT_VERIFIED, Code.Unavailable);
    });
    if (caller === undefined) {
      o.onRejected(rpc, Code.Unauthenticated);
      throw new ConnectError(NO_TOKEN, Code.Unauthenticated);
    }
    if (!mayCall(caller, service, method)) {
      o.onRejected(rpc, Code.PermissionDenied);
      o.logger.warn({ caller, ...rpc }, 'call denied: not in the table of callers');
      const text = `${caller} may not call ${rpc.method} of ${rpc.service}`;
      throw new ConnectError(text, Code.PermissionDenied);
    }
    values.set(callerKey, caller);
    return true;
  };
}

/**
 * Server interceptor: throws INVALID_ARGUMENT for a request without a valid actor or shop, and PERMISSION_DENIED when
 * the caller may not act for the actor. Messages without such a field, for example those of the health service, are not
 * checked.
 */
export function callerInterceptor(logger: Logger): Interceptor {
  return (next) => (req) => {
    if (!req.stream) {
      const { field } = req.method.input;
      if (field.actor) {
        const actor: unknown = Reflect.get(req.message, 'actor');
        requireActor(actor);
        requirePermission(req.contextValues.get(callerKey), actor, logger);
      }
      if (field.shopId) requireShop(Reflect.get(req.message, 'shopId'));
    }
    return next(req);
  };
}

function requirePermission(caller: string, actor: unknown, logger: Logger): void {
  const kind: unknown = typeof actor === 'object' && actor ? Reflect.get(actor, 'kind') : undefined;
  if (mayNameActor(caller, kind)) return;
  logger.warn({ caller }, 'call denied: only the gateway may name people, keys and apps as actors');
  const text = `${caller} may not name people, API keys or partner apps as actors`;
  throw new ConnectError(text, Code.PermissionDenied);
}

function requireActor(actor: unknown): void {
  const rule = brokenActorRule(actor);
  if (rule !== undefined) throw invalidField('actor', rule);
}

function requireShop(shopId: unknown): void {
  if (typeof shopId === 'bigint' && shopId > 0n && shopId <= MAX_ID) return;
  throw invalidField('shop_id', 'must be an id from 1 to 2^53-1');
}
