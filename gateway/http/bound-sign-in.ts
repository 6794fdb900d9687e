import type { IncomingMessage, ServerResponse } from 'node:http';
import type { RequestHandler } from 'express';
import { HttpError, loadRetryAfterS } from '../errors.ts';
import { beforeHeaders } from './before-headers.ts';
import { bodyArrived, closeUnlessReceived } from './body-arrived.ts';
import { ClientGone } from './client-gone.ts';
import { createConcurrentShare } from './concurrent-share.ts';
import type { Exchange } from './exchange.ts';
import type { InFlight, Slot } from './in-flight.ts';
import { announcesBody, sendContinue } from './receive-body.ts';
import { send } from './respond.ts';

/** Maximum share of the slots for one IP address. */
const ADDRESS_PART = 1 / 4;

/** The slots of the requests that have one, for {@link receiveForm}. */
const slots = new WeakMap<IncomingMessage, Slot>();

/**
 * Bounds the in-flight requests of the sign-in, in total and for each IP address. Above the bound a request gets an
 * OAuth error (RFC 6749, 4.1.2.1). A request occupies its slot while this process works for it, but not while it waits
 * for the client.
 *
 * @param bodyMs time limit for a body, which is always small. After it, the connection is closed.
 */
export function boundSignIn(
  inFlight: InFlight,
  exchangeOf: (res: ServerResponse) => Exchange | undefined,
  bodyMs: number,
): RequestHandler {
  const maxOfAddress = Math.max(1, Math.floor(inFlight.sizeOf('signIn') * ADDRESS_PART));
  const count = createConcurrentShare(maxOfAddress);

  return async (req, res, next) => {
    const exchange = exchangeOf(res);
    if (!exchange?.operation) return next();
    // After a disconnect, there is no further `close` event that would release the slot.
    if (res.closed) return;
    if (!count(exchange.address, res)) return reject(req, res, 429);
    const slot = await inFlight.enter('signIn', exchange).catch(() => undefined);
    if (!slot) return reject(req, res, 503);
    if (res.closed) return slot.release();
    slots.set(req, slot);
    // A rejected request is open for seconds after its response, while the rest of its body is discarded.
    beforeHeaders(res, () => slot.release());
    res.once('close', () => slot.release());
    if (announcesBody(req)) closeUnlessReceived(req, res, bodyMs);
    next();
  };
}

/**
 * Waits for the body of a sign-in request, without a slot. Sends `100 Continue` if the client waits for it. In each
 * route it is directly before the handler that reads the body, so that earlier handlers can reject the request before
 * the client sends its body.
 */
export const receiveForm: RequestHandler = async (req, res, next) => {
  sendContinue(req, res);
  const slot = slots.get(req);
  try {
    await slot?.during(() => bodyArrived(req));
  } catch (error) {
    if (error instanceof ClientGone) return;
    if (!(error instanceof HttpError)) throw error;
    return reject(req, res, 503);
  }
  next();
};

const MESSAGES = {
  429: 'There are too many requests of this address at the moment. Try again shortly.',
  503: 'There are too many requests at the moment. Try again shortly.',
} as const;

function reject(
  req: IncomingMessage,
  res: ServerResponse,
  status: keyof typeof MESSAGES,
): Promise<void> {
  const message = MESSAGES[status];
  const error = 'temporarily_unavailable';
  return send(req, res, {
    status,
    headers: { 'Retry-After': String(loadRetryAfterS()), 'Cache-Control': 'no-store' },
    body: {
      contentType: 'application/json',
      json: { error, error_description: message, message, errors: {} },
    },
  });
}
