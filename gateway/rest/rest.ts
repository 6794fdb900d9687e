import type { IncomingMessage, ServerResponse } from 'node:http';
import { JSON_DEPTH_MAX, JSON_ENTRIES_MAX } from '../../services/contract/limits.ts';
import type { Operation, OperationId } from '../../services/contract/operations.ts';
import { shapeError, shapeResponse } from '../../services/contract/shape.ts';
import {
  type BodyOf,
  parsePathId,
  type QueryOf,
  validateBody,
  validateQuery,
} from '../../services/contract/validate.ts';
import { newestActive } from '../../services/contract/versions.ts';
import { forCaller } from '../../services/platform/caller.ts';
import { isUnavailable } from '../../services/platform/errors.ts';
import { MAX_ID } from '../../services/platform/ids.ts';
import type { Logger } from '../../services/platform/log.ts';
import type { ReadReturn } from '../actions/context.ts';
import { type BodyCharge, bodyCharge, pointsOfAnswer } from '../auth/body-charge.ts';
import type { ByteQuota } from '../auth/byte-quota.ts';
import type { Caller } from '../auth/caller.ts';
import { addressOf, type ClientIp } from '../auth/client-ip.ts';
import type { LeasedLimit } from '../auth/leased-limit.ts';
import type { Refusal } from '../auth/refusal.ts';
import {
  HttpRefusal,
  internalError,
  invalid,
  methodNotAllowed,
  notFound,
  rateLimited,
  toRefusal,
  unknownPath,
  unknownVersion,
} from '../errors.ts';
import type { BodyBudget, HeldBytes } from '../http/body-budget.ts';
import type { Exchange } from '../http/exchange.ts';
import type { InFlight, Slot } from '../http/in-flight.ts';
import type { Services } from '../services.ts';
import type { AuditWriter } from '../tenancy/audit-writer.ts';
import { audited, namedInBody } from './audited.ts';
import { ClientGone, endOf } from './body.ts';
import { readChargedBody } from './charged-body.ts';
import { type Authentication, authenticate, requireScope } from './credential.ts';
import { HANDLERS, type RestRequest } from './handlers.ts';
import { parseJsonObject } from './json.ts';
import { holdAnswer } from './large-answer.ts';
import { type HttpResponse, send } from './respond.ts';
import { type Route, resolveRoute } from './route.ts';

export interface RestDependencies {
  readonly services: Services;
  readonly readReturn: ReadReturn;
  readonly auth: Authentication;
  readonly bodies: BodyBudget;
  /** Memory budget for responses that clients have not read yet, by shop. */
  readonly answers: BodyBudget;
  readonly restLimit: LeasedLimit;
  /** Requests per minute for keys without their own limit. */
  readonly restPerMinute: number;
  /** Bytes per shop and day. */
  readonly byteQuota: ByteQuota;
  readonly clientIp: ClientIp;
  readonly audit: AuditWriter;
  readonly inFlight: InFlight;
  readonly logger: Logger;
}

type OperationRoute = Extract<Route, { kind: 'operation' }>;

/** Proxies and clients must not cache responses under `/api`. */
const NO_STORE = { 'Cache-Control': 'no-store' };

/**
 * The REST API. The returned function answers requests under `/api` and returns true; for other paths it does nothing
 * and returns false.
 *
 * @param calendar returns the date of the version calendar.
 */
export function createRest(deps: RestDependencies, calendar: () => Date) {
  return async (
    req: IncomingMessage,
    res: ServerResponse,
    exchange: Exchange,
  ): Promise<boolean> => {
    const today = calendar();
    const route = resolveRoute(req.method ?? '', req.url ?? '', today);
    if (route.kind === 'outside') return false;
    note(exchange, route);
    const version = 'served' in route ? route.served.served : newestActive(today);
    const headers = { ...NO_STORE, ...('served' in route && route.served.headers) };
    try {
      const work = () => answerRoute(deps, route, { req, res, exchange });
      const end = endOf(res);
      const answer = await forCaller(end.signal, work);
      const whole = { ...answer, headers: { ...headers, ...answer.headers } };
      await send(req, res, whole, (bytes) => {
        end.made();
        exchange.chargeAnswer?.(bytes);
        // The response of a write is never refused, because the write is done. It is no larger than its body.
        if (route.kind !== 'operation' || route.operation.method !== 'GET') return undefined;
        return holdAnswer(deps.answers, { shopId: exchange.shopId, res, bytes });
      });
    } catch (error) {
      if (error instanceof ClientGone || (res.destroyed && isUnavailable(error))) return true;
      const refusal = refusalOf(error, route, exchange.requestId);
      report(deps.logger, refusal, exchange);
      const { contentType, body } = shapeError(version, refusal.error);
      await send(req, res, {
        status: refusal.error.status,
        headers: { ...headers, ...refusal.headers },
        body: { contentType, json: body },
      });
    }
    return true;
  };
}

interface Incoming {
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
  readonly exchange: Exchange;
}

/** A request with a slot for in-flight requests. */
interface WithSlot extends Incoming {
  readonly slot: Slot;
}

async function answerRoute(
  deps: RestDependencies,
  route: Route,
  incoming: Incoming,
): Promise<HttpResponse> {
  switch (route.kind) {
    case 'unknown-version':
      throw unknownVersion(route.detail);
    case 'unknown-path':
    case 'outside':
      throw unknownPath();
    case 'options':
      return { status: 204, headers: { Allow: route.allow } };
    case 'wrong-method':
      throw methodNotAllowed(route.allow);
    case 'operation':
      return answerOperation(deps, route, incoming);
    default:
      return route satisfies never;
  }
}

async function answerOperation(
  deps: RestDependencies,
  route: OperationRoute,
  incoming: Incoming,
): Promise<HttpResponse> {
  const slot = await deps.inFlight.enter(route.operation.id, incoming.exchange);
  try {
    return await answerInSlot(deps, route, { ...incoming, slot });
  } finally {
    slot.release();
  }
}

/** Checks credential, scope, rate limit, body and schema in this order; the first fault decides. Then calls the service. */
async function answerInSlot(
  deps: RestDependencies,
  route: OperationRoute,
  incoming: WithSlot,
): Promise<HttpResponse> {
  const { operation } = route;
  const { req, exchange } = incoming;
  const ip = addressOf(deps.clientIp, req);
  const onRefused = (refusal: Refusal): void => {
    exchange.refusal = refusal;
  };
  const { headers } = req;
  const caller = await authenticate(deps.auth, operation, { headers, ip, onRefused });
  exchange.shopId = caller.shopId;
  exchange.actorId = caller.actor.id ?? '';
  requireScope(operation, caller, onRefused);
  const limit = caller.restPerMinute ?? deps.restPerMinute;
  const take = (points: number) => deps.restLimit.take(caller.limitKey, limit, points);
  const admission = await take(1);
  if (!admission.admitted) throw rateLimited(admission.retryAfterS);
  exchange.chargeAnswer = (bytes) => {
    const points = Math.min(pointsOfAnswer(bytes), limit - 1);
    // The response is sent in any case. The points that it costs are missing for later requests.
    if (points > 0) void take(points).catch(() => {});
  };

  const charge = bodyCharge({
    quota: deps.byteQuota,
    shopId: caller.shopId,
    // At most `limit - 1` points, because one was taken above: a new window admits any allowed request.
    takePoints: (points) => take(Math.min(points, limit - 1)),
  });
  const held = deps.bodies.open({ caller: caller.limitKey, shop: String(caller.shopId) });
  try {
    const body = await readInput(route, incoming, { charge, held });
    return await perform(deps, route, { req, caller, body, ip, requestId: exchange.requestId });
  } finally {
    held.release();
  }
}

async function perform(
  deps: RestDependencies,
  route: OperationRoute,
  o: {
    readonly req: IncomingMessage;
    readonly caller: Caller;
    readonly body: BodyOf<OperationId>;
    readonly ip: string;
    readonly requestId: string;
  },
): Promise<HttpResponse> {
  const { operation, served } = route;
  const { req, caller, body, ip, requestId } = o;
  const { services, readReturn } = deps;
  const context = { services, readReturn, shopId: caller.shopId, actor: caller.actor };
  const query = readQuery(operation, served.served, req.url ?? '');
  const id = readPathId(route);
  const { deliveryId = '' } = route;
  const request = { context, id, deliveryId, body, query };
  const about = { operation, caller, address: ip, requestId };
  const version = served.served;
  const newest = await audited(
    deps.audit,
    { ...about, version, subject: subjectOf(route, body) },
    () => run(operation.id, request),
  );
  const { status } = operation.success;
  if (!operation.success.schema) return { status, headers: {} };
  const json = shapeResponse(served.served, operation.id, newest);
  return { status, headers: {}, body: { contentType: 'application/json', json } };
}

/** The ids of the objects in a request, for the audit log. */
function subjectOf(route: OperationRoute, body: BodyOf<OperationId>): string {
  const named = [route.id, route.deliveryId, namedInBody(route.operation.id, body)];
  return named.filter((id) => id !== undefined).join(' ');
}

function run<K extends OperationId>(id: K, request: RestRequest<K>): Promise<unknown> {
  return HANDLERS[id](request);
}

const BOUNDS = { maxDepth: JSON_DEPTH_MAX, maxEntries: JSON_ENTRIES_MAX };

async function readInput(
  { operation, served }: OperationRoute,
  { req, res, exchange, slot }: WithSlot,
  o: { readonly charge: BodyCharge; readonly held: HeldBytes },
): Promise<BodyOf<OperationId>> {
  const { maxBytes } = operation.body ?? {};
  const bytes =
    maxBytes === undefined
      ? undefined
      : await slot.during(() => readChargedBody(req, res, { ...o, maxBytes, meter: exchange }));
  const exactNumbers = operation.body?.exactNumbers ?? false;
  const json = bytes && parseJsonObject(bytes, { ...BOUNDS, exactNumbers });
  const result = validateBody(operation.id, served.served, json);
  if (!result.ok) throw invalid(result.message, result.fields);
  return result.value;
}

function readQuery(operation: Operation, version: string, target: string): QueryOf<OperationId> {
  const query = new URLSearchParams(target.split('?').slice(1).join('?'));
  const result = validateQuery(operation.id, version, query);
  if (result.ok) return result.value;
  if (result.notFound) throw notFound(operation);
  throw invalid(result.message, result.fields);
}

/**
 * Parses the id in the path. A malformed id is answered 404 only after every other check. For a webhook update, these
 * checks include its URL, which the service checks: so the service gets an id that does not exist.
 */
function readPathId(route: OperationRoute): bigint {
  const id = route.id === undefined ? 0n : parsePathId(route.id);
  if (id !== undefined) return id;
  if (route.operation.id === 'updateWebhook') return MAX_ID;
  throw notFound(route.operation);
}

function refusalOf(error: unknown, route: Route, requestId: string): HttpRefusal {
  if (route.kind === 'operation') return toRefusal(error, route.operation, requestId);
  return error instanceof HttpRefusal ? error : internalError(requestId, error);
}

function report(logger: Logger, refusal: HttpRefusal, exchange: Exchange): void {
  if (exchange.isShed) return;
  const { requestId, operation } = exchange;
  const event = { err: refusal.cause, requestId, operation };
  if (refusal.error.status === 500) logger.error(event, 'request failed');
  if (refusal.error.status === 503) logger.warn(event, 'request failed: service unavailable');
}

function note(exchange: Exchange, route: Route): void {
  if (!('served' in route)) return;
  exchange.version = route.served.served;
  exchange.pastWindow = route.served.pastWindow;
  if (route.kind === 'operation') exchange.operation = route.operation.id;
}
