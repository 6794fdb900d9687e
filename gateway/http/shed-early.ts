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
 * Refuses REST requests without a free slot before any other work.
 *
 * A process with three times the load that it can serve refuses two thirds of its requests. A refusal here costs a
 * small part of a read, because it has neither routing by Express nor span, histogram and access log line. `inFlight`
 * counts the refusals and logs their number. A request with an unusual spelling of its path is refused later.
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
    const { method, url = '' } = req;
    const wanted = method === 'HEAD' ? 'GET' : method;
    for (const { operation, form } of FORMS) {
      const [, version, rest] = (operation.method === wanted && form.exec(url)) || [];
      if (rest === undefined || (version !== undefined && !isVersion(version))) continue;
      const served = serve(version, calendar(), rest);
      if ('unknown' in served || !inFlight.refuses(operation.id)) break;
      return void refuse(req, res, served);
    }
    return next(req, res);
  };
}

/** The targets of operations in their usual spelling, with version and path. */
const FORMS = OPERATIONS.map((operation) => {
  const path = operation.path.replaceAll(/\{\w+\}/g, '[^/?]+');
  return { operation, form: new RegExp(`^/api(?:/([^/]+))?(${path})(?:\\?|$)`) };
});

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
  const body = bodyFor(served.served);
  const headers = {
    ...FIXED,
    ...served.headers,
    'Retry-After': String(loadRetryAfterS()),
    'X-Request-Id': requestIdOf(req),
  };
  if (announcesBody(req)) return void send(req, res, { status: 503, headers, body });
  // The request has no body, so the response can be written at once.
  res.writeHead(503, {
    ...headers,
    'Content-Type': body.contentType,
    'Content-Length': Buffer.byteLength(body.text),
  });
  res.end(body.text);
}
