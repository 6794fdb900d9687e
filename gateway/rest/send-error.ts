import type { IncomingMessage, ServerResponse } from 'node:http';
import { helpLink } from '../../services/contract/error-help.ts';
import { shapeError } from '../../services/contract/shape.ts';
import type { Logger } from '../../services/platform/telemetry/log.ts';
import type { HttpError } from '../errors.ts';
import type { Exchange } from '../http/exchange.ts';
import { addHint, addLink, HINT } from '../http/help-headers.ts';
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
