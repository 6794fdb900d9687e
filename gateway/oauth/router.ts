import express, { type ErrorRequestHandler, Router } from 'express';
import { messageError } from '../../services/contract/public-errors.ts';
import { HttpError } from '../errors.ts';
import { receiveForm } from '../http/bound-sign-in.ts';
import { EXACT_PATHS, endpoint } from '../http/endpoint.ts';
import { addHint } from '../http/help-headers.ts';
import { reserveBody, SIGN_IN_BODY_BYTES_MAX } from './body-reservation.ts';
import { createSelfNames } from './clients/self-name.ts';
import { allowAnyOrigin } from './cors.ts';
import type { OAuthDependencies } from './dependencies.ts';
import { authorizationServerMetadata, protectedResourceMetadata } from './metadata.ts';
import { createOneTimeRecords } from './one-time-records.ts';
import { clientMetadata, parseRequest, redirectUrisIn, registrationHint } from './register.ts';
import { signInRoutes } from './sign-in-routes.ts';

/**
 * Creates the router for the sign-in of assistants: `/.well-known/*` and `/oauth/*` (interface: MCP server endpoints).
 * Requests for other paths go to the next handler.
 */
export function createOAuth(o: OAuthDependencies): Router {
  const router = Router(EXACT_PATHS);
  const server = authorizationServerMetadata(o.issuer, o.clients);
  const resource = protectedResourceMetadata(o.issuer);
  for (const [path, document] of [
    ['/.well-known/oauth-authorization-server', server],
    ['/.well-known/openid-configuration', server],
    ['/.well-known/oauth-protected-resource', resource],
    ['/.well-known/oauth-protected-resource/mcp', resource],
  ] as const) {
    endpoint(router, path, {
      before: [allowAnyOrigin('GET')],
      GET: [o.limits.wellKnown, (_req, res) => res.json(document)],
    });
  }
  // Count requests for unknown metadata paths as well.
  router.use('/.well-known', o.limits.wellKnown);
  router.use('/oauth', (_req, res, next) => {
    res.setHeader('Cache-Control', 'no-store');
    // An app may open the sign-in in a popup. With a stricter value, it would lose its reference to the popup before
    // the redirect arrives.
    res.setHeader('Cross-Origin-Opener-Policy', 'unsafe-none');
    next();
  });
  router.use('/oauth', reserveBody(o.bodies, o.clientIp));
  if (o.signIn) registration(router, o);
  router.use(signInRoutes(o));
  router.use(rejectBodies);
  return router;
}

function registration(router: Router, o: OAuthDependencies): void {
  const names = createSelfNames(createOneTimeRecords(o.pool), o.clientIp);
  endpoint(router, '/oauth/register', {
    before: [allowAnyOrigin('POST')],
    POST: [
      o.limits.register,
      receiveForm,
      express.text({ type: () => true, limit: SIGN_IN_BODY_BYTES_MAX, defaultCharset: 'utf-8' }),
      async (req, res) => {
        const request = parseRequest(String(req.body ?? ''));
        const redirectUris = redirectUrisIn(request).filter((uri) => o.clients.isListed(uri));
        const stored = names.remember(req, {
          name: Reflect.get(request, 'client_name'),
          redirectUris,
        });
        // A registration without a stored name is complete: only the consent page will not show the name.
        await stored.catch((err) => o.logger.warn({ err }, 'name of a client not stored'));
        const hint = registrationHint(o.clients, request);
        if (hint !== undefined) addHint(res, hint);
        res.status(201).json(clientMetadata(o.clients, request));
      },
    ],
  });
}

/** Converts errors of Express's body parsers to 400, 413 or 415. */
const rejectBodies: ErrorRequestHandler = (error, _req, _res, next) => {
  const status: unknown = error instanceof Error ? Reflect.get(error, 'status') : undefined;
  const isTooLarge = status === 413;
  if (
    error instanceof HttpError ||
    error instanceof URIError ||
    (status !== 400 && !isTooLarge && status !== 415)
  ) {
    return next(error);
  }
  const detail = isTooLarge ? 'The request body is too large.' : 'The request body cannot be read.';
  next(new HttpError(messageError(status, 'BAD_REQUEST', { title: 'Bad Request', detail })));
};
