import type { Request, RequestHandler, Response } from 'express';
import { JSON_DEPTH_MAX, JSON_ENTRIES_MAX } from '../../services/contract/limits.ts';
import type { Operation, OperationId } from '../../services/contract/operations.ts';
import { shapeResponse } from '../../services/contract/shape.ts';
import {
  type BodyOf,
  parsePathId,
  type QueryOf,
  validateBody,
  validateQuery,
} from '../../services/contract/validate.ts';
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
import { invalid, notFound, rateLimited, toRefusal } from '../errors.ts';
import type { BodyBudget, HeldBytes } from '../http/body-budget.ts';
import { ClientGone, endOf } from '../http/client-gone.ts';
import type { Exchange } from '../http/exchange.ts';
import type { InFlight, Slot } from '../http/in-flight.ts';
import { parseJsonObject } from '../http/json.ts';
import { holdAnswer } from '../http/large-answer.ts';
import { receiveBody } from '../http/receive-body.ts';
import { type HttpResponse, send } from '../http/respond.ts';
import type { Services } from '../services.ts';
import type { AuditWriter } from '../tenancy/audit-writer.ts';
import { audited, namedInBody } from './audited.ts';
import { type Authentication, authenticate, requireScope } from './credential.ts';
import { HANDLERS, type RestRequest } from './handlers.ts';
import { sendRefusal } from './refusal.ts';

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

/** A request for an operation. */
interface Incoming {
  readonly operation: Operation;
  /** The version that serves the request. */
  readonly version: string;
  readonly req: Request;
  readonly res: Response;
  readonly exchange: Exchange;
}

/** A request with a slot for in-flight requests. */
interface WithSlot extends Incoming {
  readonly slot: Slot;
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
    const answer = await forCaller(end.signal, () => answerOperation(deps, incoming));
    await send(req, res, answer, (bytes) => {
      end.made();
      exchange.chargeAnswer?.(bytes);
      // The response of a write is never refused, because the write is done. It is no larger than its body.
      if (operation.method !== 'GET') return undefined;
      return holdAnswer(deps.answers, { shopId: exchange.shopId, res, bytes });
    });
  } catch (error) {
    if (error instanceof ClientGone || (res.destroyed && isUnavailable(error))) return;
    await sendRefusal(deps.logger, toRefusal(error, operation, exchange.requestId), incoming);
  }
}

async function answerOperation(deps: RestDependencies, incoming: Incoming): Promise<HttpResponse> {
  const slot = await deps.inFlight.enter(incoming.operation.id, incoming.exchange);
  try {
    return await answerInSlot(deps, { ...incoming, slot });
  } finally {
    slot.release();
  }
}

/** Checks credential, scope, rate limit, body and schema in this order; the first fault decides. Then calls the service. */
async function answerInSlot(deps: RestDependencies, incoming: WithSlot): Promise<HttpResponse> {
  const { operation, req, exchange } = incoming;
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
    const body = await readInput(incoming, { charge, held });
    return await perform(deps, incoming, { caller, body, ip });
  } finally {
    held.release();
  }
}

async function perform(
  deps: RestDependencies,
  { operation, version, req, exchange }: Incoming,
  o: { readonly caller: Caller; readonly body: BodyOf<OperationId>; readonly ip: string },
): Promise<HttpResponse> {
  const { caller, body, ip } = o;
  const { services, readReturn } = deps;
  const context = { services, readReturn, shopId: caller.shopId, actor: caller.actor };
  const query = readQuery(operation, version, req.url);
  // Percent-decoded once, by Express.
  const { id: idText, delivery_id: deliveryId } = req.params;
  const ids = [idText, deliveryId, namedInBody(operation.id, body)];
  const subject = ids.filter((id) => id !== undefined).join(' ');
  const id = readPathId(operation, idText);
  const request = { context, id, deliveryId: String(deliveryId ?? ''), body, query };
  const about = { operation, caller, address: ip, requestId: exchange.requestId, version, subject };
  const newest = await audited(deps.audit, about, () => run(operation.id, request));
  const { status } = operation.success;
  if (!operation.success.schema) return { status, headers: {} };
  const json = shapeResponse(version, operation.id, newest);
  return { status, headers: {}, body: { contentType: 'application/json', json } };
}

function run<K extends OperationId>(id: K, request: RestRequest<K>): Promise<unknown> {
  return HANDLERS[id](request);
}

const BOUNDS = { maxDepth: JSON_DEPTH_MAX, maxEntries: JSON_ENTRIES_MAX };

async function readInput(
  { operation, version, req, res, exchange, slot }: WithSlot,
  o: { readonly charge: BodyCharge; readonly held: HeldBytes },
): Promise<BodyOf<OperationId>> {
  const { maxBytes } = operation.body ?? {};
  const bytes =
    maxBytes === undefined
      ? undefined
      : await slot.during(() => receiveBody(req, res, { ...o, maxBytes, meter: exchange }));
  const exactNumbers = operation.body?.exactNumbers ?? false;
  const json = bytes && parseJsonObject(bytes, { ...BOUNDS, exactNumbers });
  const result = validateBody(operation.id, version, json);
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
function readPathId(operation: Operation, text: string | string[] | undefined): bigint {
  const id = text === undefined ? 0n : parsePathId(String(text));
  if (id !== undefined) return id;
  if (operation.id === 'updateWebhook') return MAX_ID;
  throw notFound(operation);
}
