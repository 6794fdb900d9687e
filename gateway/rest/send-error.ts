import type { IncomingMessage, ServerResponse } from 'node:http';
import { helpLink } from '../../services/contract/error-help.ts';
import { shapeError } from '../../services/contract/shape.ts';
import type { Logger } from '../../services/platform/log.ts';
import type { HttpError } from '../errors.ts';
import type { Exchange } from '../http/exchange.ts';
import { send } from '../http/respond.ts';

/** Sends an error in the form of the version that serves the request. Logs errors that the caller did not cause. */
export function sendError(
  logger: Logger,
  { error, headers, cause }: HttpError,
  o: {
    readonly req: IncomingMessage;
    readonly res: ServerResponse;
    readonly exchange: Exchange;
    readonly version: string;
  },
): Promise<void> {
  const { requestId, operation, isShed } = o.exchange;
  const event = { err: cause, requestId, operation };
  if (error.status === 500) logger.error(event, 'request failed');
  if (error.status === 503 && !isShed) logger.warn(event, 'request failed: service unavailable');
  addLink(o.res, helpLink(error.problem.code));
  const { [HINT]: hint, ...others } = headers;
  if (hint !== undefined) addHint(o.res, hint);
  const { contentType, body: json } = shapeError(o.version, error);
  return send(o.req, o.res, { status: error.status, headers: others, body: { contentType, json } });
}

/** Adds a link to the header `Link` of the response, which may already have others. */
export function addLink(res: ServerResponse, link: string): void {
  add(res, { name: 'Link', value: link, separator: ', ' });
}

const HINT = 'X-Service-Hint';

/**
 * Adds a hint to the response, which may already have others. It tells people what the caller probably wanted. @param
 * hint in ASCII.
 */
export function addHint(res: ServerResponse, hint: string): void {
  add(res, { name: HINT, value: hint, separator: '; ' });
}

function add(
  res: ServerResponse,
  o: { readonly name: string; readonly value: string; readonly separator: string },
): void {
  if (res.headersSent) return;
  const others = res.getHeader(o.name);
  res.setHeader(o.name, others === undefined ? o.value : `${others}${o.separator}${o.value}`);
}
