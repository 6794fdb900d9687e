import type { RequestHandler, Response } from 'express';
import type { Operation, OperationId } from '../../services/contract/operation.ts';
import { shapeResponse } from '../../services/contract/shape.ts';
import type { BodyOf } from '../../services/contract/validate.ts';
import { forCaller } from '../../services/platform/caller.ts';
import { isUnavailable } from '../../services/platform/errors.ts';
import type { Logger } from '../../services/platform/log.ts';
import { changeNotes, type ReadReturn } from '../actions/context.ts';
import { bodyCharge, pointsOfResponse } from '../auth/body-charge.ts';
import type { ByteQuota } from '../auth/byte-quota.ts';
import type { Caller } from '../auth/caller.ts';
import { addressOf, type ClientIp } from '../auth/client-ip.ts';
import type { LeasedLimit } from '../auth/leased-limit.ts';
import type { Rejection } from '../auth/rejection.ts';
import type { VersionUsage } from '../auth/version-usage.ts';
import { rateLimited } from '../errors.ts';
import type { BodyBudget } from '../http/body-budget.ts';
import { ClientGone, endOf } from '../http/client-gone.ts';
import { markEnvironment } from '../http/environment.ts';
import type { Exchange } from '../http/exchange.ts';
import { addHint, addLink } from '../http/help-headers.ts';
import type { InFlight } from '../http/in-flight.ts';
import { reserveResponse } from '../http/large-response.ts';
import { type HttpResponse, send } from '../http/respond.ts';
import { toHttpError } from '../service-errors.ts';
import type { Services } from '../services.ts';
import type { AuditWriter } from '../tenancy/audit-writer.ts';
import { audited, idsInBody } from './audited.ts';
import { type Authentication, authenticate, requireScope } from './credential.ts';
import { type RestRequest, responseHeaders } from './handler.ts';
import { HANDLERS } from './handlers.ts';
import { idempotencyKeyOf } from './idempotency-key.ts';
import { conflictHint, DELIVERY_ID, missingHint } from './missing-hint.ts';
import { nextPageLink } from './next-page.ts';
import { showRejectedCredentials, showRequests } from './rate-limit-headers.ts';
import { type Incoming, readInput, readPathId, readQuery, type WithSlot } from './read-request.ts';
import { sendError } from './send-error.ts';

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
export function operationHandler(
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
  const admission = await take(operation.points ?? 1);
  showRest();
  if (!admission.admitted) throw rateLimited(admission.retryAfterS);
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
  const context = { services, readReturn, shopId, actor, noteChanges };
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
  const request = {
    context,
    id,
    deliveryId: String(deliveryId ?? ''),
    token: String(req.params.token ?? ''),
    idempotencyKey,
    body,
    query,
    headers: responseHeaders(res),
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
  const newest = await audited(deps.audit, about, () => run(operation.id, request)).catch(
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
  const { status } = operation.success;
  if (!operation.success.schema) return { status, headers: {} };
  const next = nextPageLink(operation, req.originalUrl, newest);
  if (next !== undefined) addLink(res, next);
  const json = shapeResponse(version, operation.id, newest);
  return { status, headers: {}, body: { contentType: 'application/json', json } };
}

function run<K extends OperationId>(id: K, request: RestRequest<K>): Promise<unknown> {
  return HANDLERS[id](request);
}
