import type { IncomingMessage, ServerResponse } from 'node:http';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import { type RequestHandler, Router } from 'express';
import { isUnavailable } from '../../services/platform/errors.ts';
import type { Logger } from '../../services/platform/log.ts';
import type { RateLimit } from '../auth/rate-limits.ts';
import {
  badBody,
  HttpError,
  internalError,
  rateLimited,
  unauthorized,
  unavailable,
} from '../errors.ts';
import type { BodyBudget } from '../http/body-budget.ts';
import { ClientGone } from '../http/client-gone.ts';
import { EXACT_PATHS, endpoint } from '../http/endpoint.ts';
import type { Exchange } from '../http/exchange.ts';
import type { InFlight } from '../http/in-flight.ts';
import { readBody } from '../http/receive-body.ts';
import { send } from '../http/respond.ts';
import type { Services } from '../services.ts';

export interface ShopifyWebhookDependencies {
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
      await sendError(o.logger, httpErrorOf(error, exchange.requestId), { req, res, exchange });
    }
  };
  endpoint(router, '/commerce/shopify/webhooks', { POST: [receive] });
  return router;
}

const NO_STORE = { 'Cache-Control': 'no-store' };

interface Incoming {
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
  readonly exchange: Exchange;
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

function httpErrorOf(error: unknown, requestId: string): HttpError {
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
