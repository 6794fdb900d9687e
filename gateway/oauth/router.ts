import express, { type ErrorRequestHandler, type RequestHandler, Router } from 'express';
import { PARTNER_SCOPES } from '../../services/contract/operations.ts';
import { messageError } from '../../services/contract/public-errors.ts';
import { jsonOf } from '../../services/platform/values/text.ts';
import { addressOf, type ClientIp } from '../auth/client-ip.ts';
import { DOCS_PATHS } from '../docs/paths.ts';
import { HttpError } from '../errors.ts';
import type { BodyBudget } from '../http/body-budget.ts';
import { receiveForm } from '../http/bound-sign-in.ts';
import { EXACT_PATHS, endpoint } from '../http/endpoint.ts';
import { addHint } from '../http/help-headers.ts';
import { announcesBody } from '../http/receive-body.ts';
import { send } from '../http/respond.ts';
import { createSelfNames } from './clients/self-name.ts';
import type { SupportedClients } from './clients/supported-clients.ts';
import { allowAnyOrigin } from './cors.ts';
import type { OAuthDependencies } from './dependencies.ts';
import { PARTNER_PATHS, partnerIssuer } from './partners/address.ts';
import { partnerRoutes } from './partners/routes.ts';
import { createOneTimeRecords } from './sign-in/one-time-records.ts';
import { signInRoutes } from './sign-in/sign-in-routes.ts';
import { MCP_SCOPE } from './tokens/access-token.ts';
import { mcpResource } from './tokens/issue.ts';
import { SIGNING_ALG } from './tokens/keys.ts';

/**
 * Creates the router for the sign-in of assistants, `/.well-known/*` and `/oauth/*` (interface: MCP server endpoints), and
 * for that of partners' apps, `/partners/*`. Requests for other paths go to the next handler.
 */
export function createOAuth(o: OAuthDependencies): Router {
  const router = Router(EXACT_PATHS);
  const server = authorizationServerMetadata(o.issuer, o.clients);
  const resource = protectedResourceMetadata(o.issuer);
  const partners = o.servesPartners ? partnerServerMetadata(o.issuer) : undefined;
  for (const [path, document] of [
    ['/.well-known/oauth-authorization-server', server],
    ['/.well-known/openid-configuration', server],
    ['/.well-known/oauth-protected-resource', resource],
    ['/.well-known/oauth-protected-resource/mcp', resource],
    // Some libraries look for the metadata of OpenID Connect Discovery.
    ...(partners
      ? ([
          ['/.well-known/oauth-authorization-server/partners', partners],
          ['/partners/.well-known/openid-configuration', partners],
        ] as const)
      : []),
  ] as const) {
    endpoint(router, path, {
      before: [allowAnyOrigin('GET')],
      GET: [o.limits.wellKnown, (_req, res) => res.json(document)],
    });
  }
  // Count requests for unknown metadata paths as well.
  router.use('/.well-known', o.limits.wellKnown);
  const paths = o.servesPartners ? ['/oauth', '/partners'] : ['/oauth'];
  router.use(paths, (_req, res, next) => {
    res.setHeader('Cache-Control', 'no-store');
    // An app may open the sign-in in a popup. With a stricter value, it would lose its reference to the popup before
    // the redirect arrives.
    res.setHeader('Cross-Origin-Opener-Policy', 'unsafe-none');
    next();
  });
  router.use(paths, reserveBody(o.bodies, o.clientIp));
  if (o.signIn) registration(router, o);
  const partner = o.servesPartners ? partnerRoutes(o) : undefined;
  router.use(signInRoutes(o, partner?.callback));
  if (partner) router.use(partner.router);
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

/** Maximum number of redirect URIs that are read from a request. The others are ignored. */
const MAX_URIS = 50;

/**
 * The response of `/oauth/register` (interface). It is the pre-configured client. Its redirect URIs are those of the
 * request that are on the list, or the whole list when the request has none of them. A request cannot add a redirect URI
 * to the list.
 *
 * @param request the parsed body.
 */
function clientMetadata(clients: SupportedClients, request: object) {
  const listed = redirectUrisIn(request).filter((uri) => clients.isListed(uri));
  return {
    client_id: clients.preconfiguredId,
    client_name: 'MCP client',
    redirect_uris: listed.length > 0 ? listed : clients.redirectUris,
    grant_types: ['authorization_code', 'refresh_token'],
    response_types: ['code'],
    token_endpoint_auth_method: 'none',
    scope: MCP_SCOPE,
  };
}

/**
 * What to do about a registration whose redirect URIs are all unsupported, in ASCII. The response lists the supported
 * ones, but the client cannot use them.
 */
function registrationHint(clients: SupportedClients, request: object): string | undefined {
  const uris = redirectUrisIn(request);
  if (uris.length === 0 || uris.some((uri) => clients.isListed(uri))) return undefined;
  return 'none of these redirect_uris is supported: the response lists the supported ones, and the operator of this service adds others with MCP_CLIENTS';
}

/**
 * Parses a registration request (RFC 7591, 3.1). An empty body counts as an empty object.
 *
 * @throws HttpError 400 `invalid_client_metadata` for a body that is not a JSON object.
 */
function parseRequest(body: string): object {
  if (body === '') return {};
  const request = jsonOf(body);
  if (typeof request === 'object' && request !== null && !Array.isArray(request)) return request;
  const detail = 'The client metadata must be a JSON object.';
  const common = messageError(400, 'BAD_REQUEST', { title: 'Bad Request', detail });
  const oauth = { error: 'invalid_client_metadata', error_description: detail };
  throw new HttpError({ ...common, body: { ...oauth, message: detail, errors: {} } });
}

function redirectUrisIn(request: object): string[] {
  const uris: unknown = 'redirect_uris' in request ? request.redirect_uris : [];
  if (!Array.isArray(uris)) return [];
  return uris.slice(0, MAX_URIS).filter((uri) => typeof uri === 'string');
}

/** The metadata of the authorization server (RFC 8414). It is also served as OpenID discovery. */
function authorizationServerMetadata(issuer: string, clients: SupportedClients) {
  return {
    issuer,
    authorization_endpoint: `${issuer}/oauth/authorize`,
    token_endpoint: `${issuer}/oauth/token`,
    registration_endpoint: `${issuer}/oauth/register`,
    revocation_endpoint: `${issuer}/oauth/revoke`,
    jwks_uri: `${issuer}/oauth/jwks`,
    scopes_supported: [MCP_SCOPE],
    response_types_supported: ['code'],
    response_modes_supported: ['query'],
    grant_types_supported: ['authorization_code', 'refresh_token'],
    code_challenge_methods_supported: ['S256'],
    token_endpoint_auth_methods_supported: ['none'],
    revocation_endpoint_auth_methods_supported: ['none'],
    authorization_response_iss_parameter_supported: true,
    // True when the list of clients contains copies of metadata documents. Otherwise clients must use the preconfigured
    // client id.
    client_id_metadata_document_supported: clients.ids.some((id) => id !== clients.preconfiguredId),
    prompt_values_supported: ['none', 'login', 'consent', 'select_account'],
    // OpenID discovery requires these two fields, although this server issues no id tokens.
    subject_types_supported: ['public'],
    id_token_signing_alg_values_supported: [SIGNING_ALG],
  };
}

/** The metadata of the authorization server of partners' apps (RFC 8414). */
function partnerServerMetadata(publicUrl: string) {
  const { authorization, token, revocation, jwks } = PARTNER_PATHS;
  return {
    issuer: partnerIssuer(publicUrl),
    authorization_endpoint: `${publicUrl}${authorization}`,
    token_endpoint: `${publicUrl}${token}`,
    revocation_endpoint: `${publicUrl}${revocation}`,
    jwks_uri: `${publicUrl}${jwks}`,
    service_documentation: `${publicUrl}${DOCS_PATHS.apps}`,
    scopes_supported: PARTNER_SCOPES,
    response_types_supported: ['code'],
    response_modes_supported: ['query'],
    grant_types_supported: ['authorization_code', 'refresh_token'],
    code_challenge_methods_supported: ['S256'],
    token_endpoint_auth_methods_supported: PARTNER_AUTH_METHODS,
    revocation_endpoint_auth_methods_supported: PARTNER_AUTH_METHODS,
    authorization_response_iss_parameter_supported: true,
    prompt_values_supported: ['none', 'login', 'consent', 'select_account'],
    // OpenID discovery requires these two fields, although this server issues no id tokens.
    subject_types_supported: ['public'],
    id_token_signing_alg_values_supported: [SIGNING_ALG],
  };
}

/** Public apps, such as a page, have no secret. */
const PARTNER_AUTH_METHODS = ['client_secret_basic', 'client_secret_post', 'none'];

/** The metadata of the MCP server as a protected resource (RFC 9728). */
function protectedResourceMetadata(issuer: string) {
  return {
    resource: mcpResource(issuer),
    authorization_servers: [issuer],
    scopes_supported: [MCP_SCOPE],
    bearer_methods_supported: ['header'],
    resource_name: 'Returns Management Service',
  };
}

/** Maximum size of a request body of the sign-in endpoints, after decompression. Bytes. */
const SIGN_IN_BODY_BYTES_MAX = 64 * 1024;

/**
 * Reserves memory for the body of a sign-in request, in the memory budget of its IP address. It reserves the whole
 * length before the body is read, because Express and oidc-provider read the body and do not know the budget.
 */
function reserveBody(bodies: BodyBudget, clientIp: ClientIp): RequestHandler {
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
