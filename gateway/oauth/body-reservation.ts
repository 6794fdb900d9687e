import type { RequestHandler } from 'express';
import { addressOf, type ClientIp } from '../auth/client-ip.ts';
import { HttpError } from '../errors.ts';
import type { BodyBudget } from '../http/body-budget.ts';
import { announcesBody } from '../http/receive-body.ts';
import { send } from '../http/respond.ts';

/** Maximum size of a request body of the sign-in endpoints, after decompression. Bytes. */
export const SIGN_IN_BODY_BYTES_MAX = 64 * 1024;

/**
 * Reserves memory for the body of a sign-in request, in the memory budget of its IP address. It reserves the whole
 * length before the body is read, because Express and oidc-provider read the body and do not know the budget.
 */
export function reserveBody(bodies: BodyBudget, clientIp: ClientIp): RequestHandler {
  return async (req, res, next) => {
    if (!announcesBody(req)) return next();
    const reserved = bodies.open({ caller: `address:${addressOf(clientIp, req)}`, res });
    const length = Number(req.headers['content-length'] ?? SIGN_IN_BODY_BYTES_MAX);
    const isInflated = req.headers['content-encoding'] !== undefined;
    try {
      reserved.growTo(
        isInflated ? SIGN_IN_BODY_BYTES_MAX : Math.min(length, SIGN_IN_BODY_BYTES_MAX),
      );
    } catch (error) {
      if (!(error instanceof HttpError)) throw error;
      const { status, problem } = error.error;
      const message = problem.detail;
      const json = { error: 'temporarily_unavailable', error_description: message };
      return send(req, res, {
        status,
        headers: error.headers,
        body: { contentType: 'application/json', json: { ...json, message, errors: {} } },
      });
    }
    next();
  };
}
