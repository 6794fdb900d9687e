import type { ServerResponse } from 'node:http';
import { type ErrorRequestHandler, type RequestHandler, type Response, Router } from 'express';
import type { Operation, OperationId } from '../../services/contract/operation.ts';
import { OPERATIONS } from '../../services/contract/operations.ts';
import { shapeResponse } from '../../services/contract/shape.ts';
import { isParameter } from '../../services/contract/validate/ignored.ts';
import { isObject } from '../../services/contract/validate/json-object.ts';
import type { BodyOf } from '../../services/contract/validate/validate.ts';
import { isVersion, newestActive, serve } from '../../services/contract/versions.ts';
import { forCaller } from '../../services/platform/rpc/caller.ts';
import type { Logger } from '../../services/platform/telemetry/log.ts';
import { isUnavailable } from '../../services/platform/values/errors.ts';
import { accessOf } from '../actions/access.ts';
import { changeNotes, type ReadReturn } from '../actions/context.ts';
import { bodyCharge, pointsOfResponse } from '../auth/body-charge.ts';
import type { ByteQuota } from '../auth/byte-quota.ts';
import type { Caller } from '../auth/caller.ts';
import { addressOf, type ClientIp } from '../auth/client-ip.ts';
import type { LeasedLimit } from '../auth/leased-limit.ts';
import type { Rejection } from '../auth/rejection.ts';
import type { VersionUsage } from '../auth/usage.ts';
import { HttpError, internalError, rateLimited, unknownPath, unknownVersion } from '../errors.ts';
import type { BodyBudget } from '../http/body-budget.ts';
import { ClientGone, endOf } from '../http/client-gone.ts';
import { EXACT_PATHS, endpoint } from '../http/endpoint.ts';
import { markEnvironment } from '../http/environment.ts';
import type { Exchange } from '../http/exchange.ts';
import { addHint, addLink } from '../http/help-headers.ts';
import type { InFlight } from '../http/in-flight.ts';
import { reserveResponse } from '../http/large-response.ts';
import { queryOf } from '../http/query.ts';
import { type HttpResponse, send } from '../http/respond.ts';
import { toHttpError } from '../service-errors.ts';
import type { Services } from '../services.ts';
import type { AuditWriter } from '../tenancy/audit-writer.ts';
import { audited, idsInBody } from './audited.ts';
import { type Authentication, authenticate, requireScope } from './credential.ts';
import { HANDLERS, type RestRequest, responseHeaders } from './handlers.ts';
import { addPathHelp, conflictHint, DELIVERY_ID, missingHint } from './hints.ts';
import { showRejectedCredentials, showRequests } from './rate-limit-headers.ts';
import {
  type Incoming,
  idempotencyKeyOf,
  readInput,
  readPathId,
  readQuery,
  type WithSlot,
} from './read-request.ts';
import { sendError } from './send-error.ts';

type HandlerArguments = Parameters<RequestHandler>;

interface RestRouting {
  readonly exchangeOf: (res: ServerResponse) => Exchange;
  /** Returns the date of the version calendar. */
  readonly calendar: () => Date;
}

/**
 * Creates the router of the REST API, for `/api`. It finds version, path and operation in this order, so an unknown
 * version is reported before an unknown path, and both before a missing key. `serve-operation.ts` makes the further
 * checks.
 */
export function restRouter(deps: RestDependencies, o: RestRouting): Router {
  const { exchangeOf, calendar } = o;
  const operations = operationRouter(deps, o);
  const serveBy = (version: string | undefined, ...[req, res, next]: HandlerArguments): unknown => {
    // Proxies and clients must not cache responses under `/api`.
    res.setHeader('Cache-Control', 'no-store');
    const found = serve(version, calendar(), req.path);
    if ('unknown' in found) {
      addPathHelp(req, res, calendar());
      return next(unknownVersion(found.unknown));
    }
    exchangeOf(res).served = found;
    if (version === undefined) {
      const newest = newestActive(calendar());
      addHint(
        res,
        `no version in the path: ${found.served} was used; name one, such as /api/${newest}`,
      );
    }
    for (const [name, value] of Object.entries(found.headers)) res.setHeader(name, value);
    return operations(req, res, next);
  };
  const handleError: ErrorRequestHandler = (error, req, res, _next) => {
    const exchange = exchangeOf(res);
    const httpError = error instanceof HttpError ? error : internalError(exchange.requestId, error);
    const version = exchange.served?.served ?? newestActive(calendar());
    return sendError(deps.logger, httpError, { req, res, exchange, version });
  };
  return Router(EXACT_PATHS)
    .use('/:version', (req, res, next) => {
      const { version } = req.params;
      return isVersion(version) ? serveBy(version, req, res, next) : next();
    })
    .use((req, res, next) => serveBy(undefined, req, res, next))
    .use(handleError);
}

/** Routes the part of the path after the version to its operation. */
function operationRouter(deps: RestDependencies, { exchangeOf, calendar }: RestRouting): Router {
  const router = Router(EXACT_PATHS);
  for (const path of new Set(OPERATIONS.map(({ path }) => path))) {
    const handlers = OPERATIONS.filter((operation) => operation.path === path).map((operation) => [
      operation.method,
      [operationHandler(deps, operation, exchangeOf)],
    ]);
    endpoint(router, path.replaceAll(/\{(\w+)\}/g, ':$1'), Object.fromEntries(handlers));
  }
  return router.use((req, res) => {
    addPathHelp(req, res, calendar());
    throw unknownPath();
  });
}

export interface RestDependencies {
  readonly services: Services;
  readonly readReturn: ReadReturn;
  readonly auth: Authentication;
  readonly bodies: BodyBudget;
  /** Memory budget of each shop for responses that clients have not read yet. */
  readonly responses: BodyBudget;
  readonly restLimit: LeasedLimit;
  /** Requests per minute for API keys and apps without a limit of their own. */
  readonly restPerMinute: number;
  /** Requests of all keys and apps of a shop, by limit. */
  readonly shopLimit: LeasedLimit;
  /** Bytes per shop and day. */
  readonly byteQuota: ByteQuota;
  readonly clientIp: ClientIp;
  readonly audit: AuditWriter;
  /** Counts the requests of each credential to each version. */
  readonly versionUsage: VersionUsage;
  readonly inFlight: InFlight;
  readonly logger: Logger;
}

/** Serves one operation. */
function operationHandler(
  deps: RestDependencies,
  operation: Operation,
  exchangeOf: (res: Response) => Exchange,
): RequestHandler {
  return (req, res) => {
    const exchange = exchangeOf(res);
    exchange.operation = operation.id;
    const version = exchange.served?.served ?? '';
    return respond(deps, { operation, version, req, res, exchange });
  };
}

async function respond(deps: RestDependencies, incoming: Incoming): Promise<void> {
  const { operation, req, res, exchange } = incoming;
  const end = endOf(res);
  try {
    const response = await forCaller(end.signal, () => serveOperation(deps, incoming));
    await send(req, res, response, (bytes) => {
      end.responseReady();
      exchange.chargeResponse?.(bytes);
      // The response of a write is always sent, because the write is done. It is no larger than the request body.
      if (operation.method !== 'GET') return undefined;
      return reserveResponse(deps.responses, { shopId: exchange.shopId, res, bytes });
    });
  } catch (error) {
    if (error instanceof ClientGone || (res.destroyed && isUnavailable(error))) return;
    await sendError(deps.logger, toHttpError(error, operation, exchange.requestId), incoming);
  }
}

async function serveOperation(deps: RestDependencies, incoming: Incoming): Promise<HttpResponse> {
  const slot = await deps.inFlight.enter(incoming.operation.id, incoming.exchange);
  try {
    return await serveInSlot(deps, { ...incoming, slot });
  } finally {
    slot.release();
  }
}

/**
 * All keys and apps of a shop with the same limit have together as many requests as so many of them. A shop may have 100
 * keys, and would otherwise have 100 times the share of one.
 */
export const KEYS_AT_ONCE = 10;

/** Checks credential, scope, rate limit, body and schema in this order, and then calls the service. */
async function serveInSlot(deps: RestDependencies, incoming: WithSlot): Promise<HttpResponse> {
  const { operation, req, res, exchange } = incoming;
  const ip = addressOf(deps.clientIp, req);
  const onRejected = (rejection: Rejection): void => {
    exchange.rejection = rejection;
  };
  const { headers, url } = req;
  const caller = await authenticate(deps.auth, operation, { headers, url, ip, onRejected }).catch(
    (error: unknown) => {
      showRejectedCredentials(res, deps.auth.failedCredentials, ip);
      throw error;
    },
  );
  exchange.shopId = caller.shopId;
  exchange.actorId = caller.actor.id ?? '';
  markEnvironment(res, caller);
  const limit = caller.restPerMinute ?? deps.restPerMinute;
  const take = (points: number) => deps.restLimit.take(caller.limitKey, limit, points);
  const showRest = () => showRequests(res, limit, deps.restLimit.rest(caller.limitKey));
  showRest();
  requireScope(operation, caller, onRejected);
  const points = operation.points ?? 1;
  const admission = await take(points);
  showRest();
  if (!admission.admitted) throw rateLimited(admission.retryAfterS);
  // Apart for each limit, so that a key with a high one uses up nothing of the others.
  const ofShop = `shop:${caller.shopId}:${limit}`;
  const whole = await deps.shopLimit.take(ofShop, limit * KEYS_AT_ONCE, points);
  if (!whole.admitted) {
    showRequests(res, limit, deps.shopLimit.rest(ofShop));
    throw rateLimited(whole.retryAfterS);
  }
  incoming.slot.ofShop(caller.shopId);
  deps.versionUsage.used({
    shopId: caller.shopId,
    credentialKind: caller.scheme === 'api-key' ? 'api_key' : 'partner_app',
    credentialId: caller.actor.id ?? '',
    requested: exchange.served?.requested ?? '',
    operation: `${operation.method} ${operation.path}`,
  });
  exchange.chargeResponse = (bytes) => {
    const points = Math.min(pointsOfResponse(bytes), limit - 1);
    // When fewer points are left, the response is still sent. It uses up the points, so that later requests must wait.
    if (points > 0) void take(points).catch(() => {});
  };

  const charge = bodyCharge({
    quota: deps.byteQuota,
    shopId: caller.shopId,
    // At most `limit - 1` points, because the request took one above. So a new window admits every request.
    takePoints: (points) => take(Math.min(points, limit - 1)),
  });
  const reserved = deps.bodies.open({ caller: caller.limitKey, shop: String(caller.shopId) });
  try {
    const body = await readInput(incoming, { charge, reserved });
    return await perform(deps, incoming, { caller, body, ip });
  } finally {
    reserved.release();
    // Show the limit again, because the body may have used points.
    showRest();
  }
}

async function perform(
  deps: RestDependencies,
  { operation, version, req, res, exchange }: Incoming,
  o: { readonly caller: Caller; readonly body: BodyOf<OperationId>; readonly ip: string },
): Promise<HttpResponse> {
  const { caller, body, ip } = o;
  const { services, readReturn } = deps;
  const { noteChanges, detail } = changeNotes();
  const { shopId, actor } = caller;
  const access = accessOf(operation, caller);
  const context = { services, readReturn, shopId, actor, noteChanges, access };
  const query = readQuery(operation, version, { target: req.url, res });
  // Express has already percent-decoded the parameters.
  const { id: idText, delivery_id: deliveryId } = req.params;
  if (deliveryId !== undefined && !DELIVERY_ID.test(String(deliveryId))) {
    addHint(res, 'the id of a delivery is its webhook-id: msg_ and a UUID in lower case');
  }
  const ids = [idText, deliveryId, idsInBody(operation.id, body)];
  const subject = ids.filter((id) => id !== undefined).join(' ');
  const id = readPathId(operation, idText, res);
  const idempotencyKey = idempotencyKeyOf(req.headers['idempotency-key'], operation, { id, body });
  let { status } = operation.success;
  const request = {
    context,
    id,
    deliveryId: String(deliveryId ?? ''),
    token: String(req.params.token ?? ''),
    idempotencyKey,
    body,
    query,
    headers: responseHeaders(res, { version }),
    repeated: () => {
      status = 200;
    },
  };
  const { requestId } = exchange;
  const about = {
    operation,
    caller,
    address: ip,
    requestId,
    version,
    subject,
    changes: { detail },
  };
  const result = await audited(deps.audit, about, () => run(operation.id, request)).catch(
    (error: unknown) => {
      const { error: shown } = toHttpError(error, operation, requestId);
      const hint =
        shown === operation.notFound
          ? missingHint(operation, caller, req)
          : conflictHint(operation, shown, req);
      if (hint !== undefined) addHint(res, hint);
      throw error;
    },
  );
  const newest = access.shown(result);
  if (!operation.success.schema) return { status, headers: {} };
  const next = nextPageLink(operation, req.originalUrl, newest);
  if (next !== undefined) addLink(res, next);
  const json = shapeResponse(version, operation.id, newest);
  return { status, headers: {}, body: { contentType: 'application/json', json } };
}

function run<K extends OperationId>(id: K, request: RestRequest<K>): Promise<unknown> {
  return HANDLERS[id](request);
}

/** Maximum length of the link, because many clients read at most 16 kB of headers. Characters. */
const LINK_MAX = 8_000;

/**
 * The link to the next page of a list (RFC 8288): the address of the request with the cursor of the next page. It keeps
 * only parameters that the operation has.
 *
 * @param target path and query, as the client sent them.
 * @param page the body of the response, in any version.
 * @returns undefined for the last page, for operations without pages, and for an address that is too long for a header.
 */
export function nextPageLink(
  { id }: Pick<Operation, 'id'>,
  target: string,
  page: unknown,
): string | undefined {
  if (!isParameter(id, 'cursor') || !isObject(page)) return undefined;
  const { next_cursor: cursor } = page;
  if (typeof cursor !== 'string') return undefined;
  const [path = ''] = target.split('?', 1);
  const kept = [...queryOf({ url: target })].filter(
    ([name]) => isParameter(id, name) && name !== 'cursor',
  );
  const link = `<${path}?${new URLSearchParams([...kept, ['cursor', cursor]])}>; rel="next"`;
  return link.length <= LINK_MAX ? link : undefined;
}
