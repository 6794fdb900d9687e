import type { IncomingMessage, ServerResponse } from 'node:http';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import { type RequestHandler, Router } from 'express';
import { COMMERCE_EVENT_BYTES_MAX } from '../../services/contract/limits.ts';
import { forCaller } from '../../services/platform/rpc/caller.ts';
import { systemActor } from '../../services/platform/security/identity.ts';
import type { Logger } from '../../services/platform/telemetry/log.ts';
import { isExhausted, isOverloaded, isUnavailable } from '../../services/platform/values/errors.ts';
import { parseId } from '../../services/platform/values/ids.ts';
import type { RateLimit } from '../auth/rate-limits.ts';
import {
  badBody,
  HttpError,
  internalError,
  overloaded,
  rateLimited,
  unauthorized,
  unavailable,
} from '../errors.ts';
import type { BodyBudget } from '../http/body-budget.ts';
import { ClientGone, endOf } from '../http/client-gone.ts';
import { EXACT_PATHS, endpoint } from '../http/endpoint.ts';
import type { Exchange } from '../http/exchange.ts';
import type { InFlight } from '../http/in-flight.ts';
import { readBody } from '../http/receive-body.ts';
import { type HttpResponse, send } from '../http/respond.ts';
import type { Services } from '../services.ts';

interface CommerceEventsDependencies {
  readonly services: Pick<Services, 'commerce'>;
  readonly webhookBodies: BodyBudget;
  readonly inFlight: InFlight;
  readonly logger: Logger;
  readonly hourlyLimits: {
    /** Events, by IP address. */
    readonly commerceEvents: RateLimit;
  };
}

interface Incoming {
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
  readonly exchange: Exchange;
}

interface IncomingEvent extends Incoming {
  /** As in the path. */
  readonly shop: string;
}

/**
 * Serves `POST /commerce/events/{shop_id}`, to which merchants' platforms send what happened there (docs/commerce.md).
 * The returns service has the secrets, so the bytes of the body and the signature are forwarded unread.
 */
export function commerceEventsRouter(
  deps: CommerceEventsDependencies,
  exchangeOf: (res: ServerResponse) => Exchange,
): Router {
  const router = Router(EXACT_PATHS);
  endpoint(router, '/commerce/events/:shop', {
    POST: [
      (req, res) => {
        const exchange = exchangeOf(res);
        exchange.operation = 'commerceEvent';
        return respond(deps, { req, res, exchange, shop: String(req.params.shop) });
      },
    ],
  });
  return router;
}

async function respond(deps: CommerceEventsDependencies, incoming: IncomingEvent): Promise<void> {
  const { req, res, exchange } = incoming;
  const end = endOf(res);
  try {
    await send(req, res, await forCaller(end.signal, () => receive(deps, incoming)));
  } catch (error) {
    if (error instanceof ClientGone || (res.destroyed && isUnavailable(error))) return;
    const { error: publicError, headers, cause } = httpErrorOf(error, exchange.requestId);
    if (publicError.status >= 500 && !exchange.isShed) {
      deps.logger.warn({ err: cause, requestId: exchange.requestId }, 'commerce event not taken');
    }
    await send(req, res, refusal(publicError.status, publicError.problem.detail, headers));
  }
}

async function receive(
  deps: CommerceEventsDependencies,
  incoming: IncomingEvent,
): Promise<HttpResponse> {
  const slot = await deps.inFlight.enter('commerceEvents', incoming.exchange);
  try {
    const { exchange } = incoming;
    const admission = await deps.hourlyLimits.commerceEvents.take(exchange.address);
    if (!admission.admitted) {
      throw admission.unavailable ? unavailable(undefined) : rateLimited(admission.retryAfterS);
    }
    const reserved = deps.webhookBodies.open({ caller: `address:${exchange.address}` });
    try {
      const bounds = { maxBytes: COMMERCE_EVENT_BYTES_MAX, meter: exchange, reserved, lateMs: 0 };
      const body = await slot.during(() => readBody(incoming.req, incoming.res, bounds));
      return await forward(deps.services, incoming, body ?? Buffer.alloc(0));
    } finally {
      reserved.release();
    }
  } finally {
    slot.release();
  }
}

async function forward(
  { commerce }: CommerceEventsDependencies['services'],
  { req, exchange, shop }: IncomingEvent,
  body: Uint8Array,
): Promise<HttpResponse> {
  const shopId = parseId(shop);
  if (shopId === undefined) return unverified(exchange);
  const header = (name: string) => String(req.headers[name] ?? '');
  const { result } = await commerce.receiveEvent({
    shopId,
    actor: systemActor('commerce'),
    body,
    webhookId: header('webhook-id'),
    webhookTimestamp: header('webhook-timestamp'),
    webhookSignature: header('webhook-signature'),
  });
  if (result.case === 'invalid') return refusal(400, result.value.message);
  if (result.case !== 'accepted') return unverified(exchange);
  exchange.shopId = shopId;
  return { status: 204, headers: NO_STORE };
}

const NO_STORE = { 'Cache-Control': 'no-store' };

/** The same for every reason, so that nobody learns which shops are connected. */
function unverified(exchange: Exchange): HttpResponse {
  exchange.rejection = { reason: 'wrong signature' };
  return refusal(401, 'The signature is not valid for this shop, or its time is not now.');
}

function refusal(
  status: number,
  message: string,
  headers: Readonly<Record<string, string>> = {},
): HttpResponse {
  const body = { contentType: 'application/json', json: { error: { message } } };
  return { status, headers: { ...NO_STORE, ...headers }, body };
}

function httpErrorOf(error: unknown, requestId: string): HttpError {
  if (error instanceof HttpError) return error;
  if (isOverloaded(error)) return overloaded(error);
  if (isUnavailable(error) || isExhausted(error)) return unavailable(error);
  return internalError(requestId, error);
}

interface ShopifyWebhookDependencies {
  readonly services: Pick<Services, 'commerce'>;
  readonly logger: Logger;
  readonly inFlight: InFlight;
  readonly webhookBodies: BodyBudget;
  /** Limit of rejected credentials per IP address. A wrong signature counts. */
  readonly auth: { readonly failedCredentials: RateLimit };
}

/** The largest body. Bytes. */
const BODY_BYTES_MAX = 1024 * 1024;
const CHALLENGE = 'Shopify realm="rms"';

/**
 * `POST /commerce/shopify/webhooks`: the webhooks of the Shopify app. The returns service verifies the signature over
 * the unchanged body. The response to everything that Shopify signed is 200, because Shopify repeats a webhook after
 * any other response, and ends the subscription in the end.
 *
 * @see https://shopify.dev/docs/apps/build/webhooks/subscribe/https
 */
export function shopifyWebhooks(
  o: ShopifyWebhookDependencies,
  exchangeOf: (res: ServerResponse) => Exchange,
): Router {
  const router = Router(EXACT_PATHS);
  const receive: RequestHandler = async (req, res) => {
    const exchange = exchangeOf(res);
    exchange.operation = 'shopifyWebhook';
    try {
      await receiveWebhook(o, { req, res, exchange });
      await send(req, res, { status: 200, headers: NO_STORE });
    } catch (error) {
      if (error instanceof ClientGone) return;
      await sendError(o.logger, shopifyErrorOf(error, exchange.requestId), { req, res, exchange });
    }
  };
  endpoint(router, '/commerce/shopify/webhooks', { POST: [receive] });
  return router;
}

/** @throws HttpError 401 for a wrong signature, 429 after many of them, 503, and the errors of {@link readBody}. */
async function receiveWebhook(
  o: ShopifyWebhookDependencies,
  { req, res, exchange }: Incoming,
): Promise<void> {
  const { address } = exchange;
  const { failedCredentials } = o.auth;
  if (failedCredentials.isUsedUp(address)) throw rateLimited(RETRY_S);
  const slot = await o.inFlight.enter('shopifyWebhook', exchange);
  const reserved = o.webhookBodies.open({ caller: `address:${address}`, res });
  try {
    const bounds = { maxBytes: BODY_BYTES_MAX, meter: exchange, reserved, lateMs: 0 };
    const body = await slot.during(() => readBody(req, res, bounds));
    if (!body) throw badBody('The webhook has no body.');
    const call = { body: new Uint8Array(body), ...shopifyHeaders(req) };
    const { accepted } = await o.services.commerce.receiveShopifyWebhook(call);
    if (accepted) return;
    exchange.rejection = { reason: 'wrong signature' };
    const admission = await failedCredentials.take(address);
    throw admission.admitted ? unauthorized(CHALLENGE) : rateLimited(admission.retryAfterS);
  } finally {
    reserved.release();
    slot.release();
  }
}

/** `Retry-After` of a rejected address. Seconds. */
const RETRY_S = 60;

function shopifyHeaders({ headers }: IncomingMessage) {
  const header = (name: string): string => {
    const value = headers[`x-shopify-${name}`];
    return typeof value === 'string' ? value : '';
  };
  const triggeredAt = new Date(header('triggered-at'));
  return {
    hmac: header('hmac-sha256'),
    shopDomain: header('shop-domain'),
    topic: header('topic'),
    webhookId: header('webhook-id') || header('event-id'),
    ...(!Number.isNaN(triggeredAt.getTime()) && { triggeredAt: timestampFromDate(triggeredAt) }),
  };
}

function shopifyErrorOf(error: unknown, requestId: string): HttpError {
  if (error instanceof HttpError) return error;
  return isUnavailable(error) ? unavailable(error) : internalError(requestId, error);
}

async function sendError(
  logger: Logger,
  { error, headers, cause }: HttpError,
  { req, res, exchange }: Incoming,
): Promise<void> {
  const { requestId, isShed } = exchange;
  if (error.status === 500) logger.error({ err: cause, requestId }, 'shopify webhook failed');
  // Without a stack, because strangers can cause many of these with slow bodies.
  if (error.status === 503 && !isShed) {
    const reason = cause instanceof Error ? cause.message : undefined;
    logger.warn({ reason, requestId }, 'shopify webhook not taken');
  }
  const body = { contentType: 'application/json', json: error.body };
  await send(req, res, { status: error.status, headers: { ...headers, ...NO_STORE }, body });
}
