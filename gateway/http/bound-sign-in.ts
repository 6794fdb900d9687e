import type { IncomingMessage, ServerResponse } from 'node:http';
import type { RequestHandler } from 'express';
import { loadRetryAfterS } from '../errors.ts';
import { announcesBody } from '../rest/body.ts';
import { send } from '../rest/respond.ts';
import type { Exchange } from './exchange.ts';
import type { InFlight } from './in-flight.ts';

/** One address may have this part of the places: it cannot keep the others out. */
const ADDRESS_PART = 1 / 4;

/**
 * Bounds the requests of sign-in that are in flight, all of them and those of one address; a refusal is worded
 * as OAuth does (RFC 6749, 4.1.2.1).
 *
 * @param bodyMs how long a body may take to arrive: it is small, and holds a place until it is there. Then the
 *   connection is ended.
 */
export function boundSignIn(
  inFlight: InFlight,
  exchangeOf: (res: ServerResponse) => Exchange | undefined,
  bodyMs: number,
): RequestHandler {
  const most = Math.max(1, Math.floor(inFlight.sizeOf('signIn') * ADDRESS_PART));
  const byAddress = new Map<string, number>();
  /** One more of an address, until the answer is out or the client has left; false when it has too many. */
  const count = (address: string, res: ServerResponse): boolean => {
    const now = byAddress.get(address) ?? 0;
    if (now >= most) return false;
    byAddress.set(address, now + 1);
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
    // Nobody says so again when the client has left already.
    if (res.closed) return;
    if (!count(exchange.address, res)) return refuse(req, res, 429);
    const place = await inFlight.enter('signIn', exchange).catch(() => undefined);
    if (!place) return refuse(req, res, 503);
    if (res.closed) return place.release();
    res.once('close', () => place.release());
    if (announcesBody(req)) endUnlessSent(req, res, bodyMs);
    next();
  };
}

function endUnlessSent(req: IncomingMessage, res: ServerResponse, ms: number): void {
  const timer = setTimeout(() => {
    // An answer that has begun ends by itself, and the connection with it.
    if (!req.complete && !res.headersSent) req.socket.destroy();
  }, ms);
  res.once('close', () => clearTimeout(timer));
}

const MESSAGES = {
  429: 'There are too many requests of this address at the moment. Try again shortly.',
  503: 'There are too many requests at the moment. Try again shortly.',
} as const;

function refuse(
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
