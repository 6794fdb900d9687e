import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import { shapeError } from '../../services/contract/shape.ts';
import type { Served } from '../../services/contract/versions.ts';
import { overloaded } from '../errors.ts';
import { send } from '../rest/respond.ts';
import { resolveRoute } from '../rest/route.ts';
import { requestIdOf } from './exchange.ts';
import type { InFlight } from './in-flight.ts';
import { SECURITY_HEADERS } from './security-headers.ts';

/**
 * Refuses REST requests for which there is no place, before anything else is done for them.
 *
 * A process that is asked for three times what it can do spends two thirds of its requests on refusals.
 * Refused here, one costs a small part of a read: without span, histogram and access line. They are
 * counted and summed up in the log by `inFlight`.
 *
 * @param calendar the day at which the version calendar of this listener stands.
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

async function refuse(req: IncomingMessage, res: ServerResponse, served: Served): Promise<void> {
  const { error, headers } = overloaded();
  const { contentType, body } = shapeError(served.served, error);
  res.setHeaders(SECURITY_HEADERS);
  res.setHeader('X-Request-Id', requestIdOf(req));
  await send(req, res, {
    status: error.status,
    headers: { 'Cache-Control': 'no-store', ...served.headers, ...headers },
    body: { contentType, json: body },
  });
}
