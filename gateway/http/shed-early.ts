import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import { OPERATIONS } from '../../services/contract/operations.ts';
import { shapeError } from '../../services/contract/shape.ts';
import { isVersion, type Served, serve } from '../../services/contract/versions.ts';
import { loadRetryAfterS, overloaded } from '../errors.ts';
import { requestIdOf } from './exchange.ts';
import type { InFlight } from './in-flight.ts';
import { announcesBody } from './receive-body.ts';
import { send } from './respond.ts';
import { SECURITY_HEADERS } from './security-headers.ts';

/**
 * Sheds REST requests for which there is no free slot, before any other work.
 *
 * Under three times the load that it can serve, a process must shed two thirds of its requests. A request that is shed
 * here costs much less than a read, because it needs no routing by Express, span, histogram or access log line.
 * `inFlight` counts these requests and logs their number. A request with an unusual spelling of its path passes, and is
 * shed when it takes its slot.
 *
 * @param calendar returns the date that the version calendar of this HTTP listener uses.
 */
export function shedEarly(
  inFlight: InFlight,
  calendar: () => Date,
  next: RequestListener,
): RequestListener {
  return (req, res) => {
    if (!inFlight.isAnyFull()) return next(req, res);
    const { method, url = '' } = req;
    const served = method === 'HEAD' ? 'GET' : method;
    for (const { operation, form } of FORMS) {
      const [, version, rest] = (operation.method === served && form.exec(url)) || [];
      if (rest === undefined || (version !== undefined && !isVersion(version))) continue;
      const found = serve(version, calendar(), rest);
      if ('unknown' in found || !inFlight.shedIfFull(operation.id)) break;
      return void shed(req, res, found);
    }
    return next(req, res);
  };
}

/**
 * One pattern for each operation. It matches the request path, without percent-encoding and with an optional version.
 * Group 1 is the version, group 2 is the rest of the path.
 */
const FORMS = OPERATIONS.map((operation) => {
  const path = operation.path.replaceAll(/\{\w+\}/g, '[^/?]+');
  return { operation, form: new RegExp(`^/api(?:/([^/]+))?(${path})(?:\\?|$)`) };
});

const FIXED = { ...Object.fromEntries(SECURITY_HEADERS), 'Cache-Control': 'no-store' };

/** The error bodies by API version, each made once. */
const bodies = new Map<string, { readonly contentType: string; readonly text: string }>();

function bodyFor(version: string) {
  const cached = bodies.get(version);
  if (cached) return cached;
  const { contentType, body } = shapeError(version, overloaded().error);
  const created = { contentType, text: JSON.stringify(body) };
  bodies.set(version, created);
  return created;
}

function shed(req: IncomingMessage, res: ServerResponse, served: Served): void {
  const body = bodyFor(served.served);
  const headers = {
    ...FIXED,
    ...served.headers,
    'Retry-After': String(loadRetryAfterS()),
    'X-Request-Id': requestIdOf(req),
  };
  if (announcesBody(req)) return void send(req, res, { status: 503, headers, body });
  // The request has no body, so the whole response is sent in one write.
  res.writeHead(503, {
    ...headers,
    'Content-Type': body.contentType,
    'Content-Length': Buffer.byteLength(body.text),
  });
  res.end(body.text);
}
