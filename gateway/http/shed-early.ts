import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import { shapeError } from '../../services/contract/shape.ts';
import type { Served } from '../../services/contract/versions.ts';
import { loadRetryAfterS, overloaded } from '../errors.ts';
import { announcesBody } from '../rest/body.ts';
import { send } from '../rest/respond.ts';
import { resolveRoute } from '../rest/route.ts';
import { requestIdOf } from './exchange.ts';
import type { InFlight } from './in-flight.ts';
import { SECURITY_HEADERS } from './security-headers.ts';

/**
 * Refuses REST requests without a free slot before any other work.
 *
 * A process with three times the load that it can serve refuses two thirds of its requests. A refusal here costs a
 * small part of a read, because it has no span, histogram and access log line. `inFlight` counts the refusals and
 * logs their number.
 *
 * @param calendar returns the date that the version calendar of this HTTP listener uses.
 */
export function shedEarly(
  inFlight: InFlight,
  calendar: () => Date,
  next: RequestListener,
): RequestListener {
  return (req, res) => {
    if (!inFlight.isCrowded()) return next(req, res);
    const route = resolveRoute(req.method ?? '', req.url ?? '', calendar());
    if (route.kind !== 'operation' || !inFlight.refuses(route.operation.id)) return next(req, res);
    return void refuse(req, res, route.served);
  };
}

const FIXED = { ...Object.fromEntries(SECURITY_HEADERS), 'Cache-Control': 'no-store' };

/** The body of the refusal, by API version. */
const bodies = new Map<string, { readonly contentType: string; readonly text: string }>();

function bodyFor(version: string) {
  const known = bodies.get(version);
  if (known) return known;
  const { contentType, body } = shapeError(version, overloaded().error);
  const made = { contentType, text: JSON.stringify(body) };
  bodies.set(version, made);
  return made;
}

function refuse(req: IncomingMessage, res: ServerResponse, served: Served): void {
  const { contentType, text } = bodyFor(served.served);
  const headers = {
    ...FIXED,
    ...served.headers,
    'Retry-After': String(loadRetryAfterS()),
    'X-Request-Id': requestIdOf(req),
  };
  if (announcesBody(req)) {
    const json: unknown = JSON.parse(text);
    return void send(req, res, { status: 503, headers, body: { contentType, json } });
  }
  // The request has no body, so the response can be written at once.
  res.writeHead(503, {
    ...headers,
    'Content-Type': contentType,
    'Content-Length': Buffer.byteLength(text),
  });
  res.end(text);
}
