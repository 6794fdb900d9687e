import type { IncomingMessage, ServerResponse } from 'node:http';
import { Router } from 'express';
import { COMMERCE_EVENT_BYTES_MAX } from '../../services/contract/limits.ts';
import { forCaller } from '../../services/platform/caller.ts';
import { isExhausted, isOverloaded, isUnavailable } from '../../services/platform/errors.ts';
import { systemActor } from '../../services/platform/identity.ts';
import { parseId } from '../../services/platform/ids.ts';
import type { Logger } from '../../services/platform/log.ts';
import type { RateLimit } from '../auth/rate-limits.ts';
import { HttpError, internalError, overloaded, rateLimited, unavailable } from '../errors.ts';
import type { BodyBudget } from '../http/body-budget.ts';
import { ClientGone, endOf } from '../http/client-gone.ts';
import { EXACT_PATHS, endpoint } from '../http/endpoint.ts';
import type { Exchange } from '../http/exchange.ts';
import type { InFlight } from '../http/in-flight.ts';
import { readBody } from '../http/receive-body.ts';
import { type HttpResponse, send } from '../http/respond.ts';
import type { Services } from '../services.ts';

export interface CommerceEventsDependencies {
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

async function respond(deps: CommerceEventsDependencies, incoming: Incoming): Promise<void> {
  const { req, res, exchange } = incoming;
  const end = endOf(res);
  try {
    await send(req, res, await forCaller(end.signal, () => receive(deps, incoming)));
  } catch (error) {
    if (error instanceof ClientGone || (res.destroyed && isUnavailable(error))) return;
    const { error: known, headers, cause } = httpErrorOf(error, exchange.requestId);
    if (known.status >= 500 && !exchange.isShed) {
      deps.logger.warn({ err: cause, requestId: exchange.requestId }, 'commerce event not taken');
    }
    await send(req, res, refusal(known.status, known.problem.detail, headers));
  }
}

async function receive(
  deps: CommerceEventsDependencies,
  incoming: Incoming,
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
  { req, exchange, shop }: Incoming,
  body: Uint8Array,
): Promise<HttpResponse> {
  const shopId = parseId(shop);
  if (shopId === undefined) return unverified();
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
  if (result.case !== 'accepted') return unverified();
  exchange.shopId = shopId;
  return { status: 204, headers: NO_STORE };
}

const NO_STORE = { 'Cache-Control': 'no-store' };

/** The same for every reason, so that nobody learns which shops are connected. */
function unverified(): HttpResponse {
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
