import type { IncomingMessage, ServerResponse } from 'node:http';
import type { RequestHandler } from 'express';
import { loadRetryAfterS } from '../errors.ts';
import type { Exchange } from './exchange.ts';
import type { InFlight } from './in-flight.ts';
import { announcesBody } from './receive-body.ts';
import { send } from './respond.ts';

/** Maximum share of the slots for one IP address. */
const ADDRESS_PART = 1 / 4;

/**
 * Bounds the in-flight requests of the sign-in, in total and for each IP address. Above the bound a request gets an
 * OAuth error (RFC 6749, 4.1.2.1).
 *
 * @param bodyMs time limit for a body, which is always small. After it, the connection is closed, because a request
 *   occupies a slot until its body has arrived.
 */
export function boundSignIn(
  inFlight: InFlight,
  exchangeOf: (res: ServerResponse) => Exchange | undefined,
  bodyMs: number,
): RequestHandler {
  const maxOfAddress = Math.max(1, Math.floor(inFlight.sizeOf('signIn') * ADDRESS_PART));
  const byAddress = new Map<string, number>();
  /** Counts a request of an address until its response closes. Returns false when the address has too many. */
  const count = (address: string, res: ServerResponse): boolean => {
    const used = byAddress.get(address) ?? 0;
    if (used >= maxOfAddress) return false;
    byAddress.set(address, used + 1);
    res.once('close', () => {
      const left = (byAddress.get(address) ?? 0) - 1;
      if (left > 0) byAddress.set(address, left);
      else byAddress.delete(address);
    });
    return true;
  };

  return async (req, res, next) => {
    const exchange = exchangeOf(res);
    if (!exchange?.operation) return next();
    // After a disconnect, there is no further `close` event that would release the slot.
    if (res.closed) return;
    if (!count(exchange.address, res)) return reject(req, res, 429);
    const slot = await inFlight.enter('signIn', exchange).catch(() => undefined);
    if (!slot) return reject(req, res, 503);
    if (res.closed) return slot.release();
    res.once('close', () => slot.release());
    if (announcesBody(req)) closeUnlessReceived(req, res, bodyMs);
    next();
  };
}

/** Closes the connection if the body does not arrive in time. */
function closeUnlessReceived(req: IncomingMessage, res: ServerResponse, ms: number): void {
  const timer = setTimeout(() => {
    // If the response has begun, its end closes the connection.
    if (!req.complete && !res.headersSent) req.socket.destroy();
  }, ms);
  res.once('close', () => clearTimeout(timer));
}

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
