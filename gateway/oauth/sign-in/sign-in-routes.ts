import type { IncomingMessage } from 'node:http';
import { Router } from 'express';
import { receiveForm } from '../../http/bound-sign-in.ts';
import { EXACT_PATHS, endpoint } from '../../http/endpoint.ts';
import { queryOf } from '../../http/query.ts';
import { createSelfNames } from '../clients/self-name.ts';
import { allowAnyOrigin } from '../cors.ts';
import type { OAuthDependencies } from '../dependencies.ts';
import {
  ended,
  type PageResponse,
  sendPage,
  unavailable,
  unknownChoice,
} from '../pages/response.ts';
import { CLIENT_METADATA, type ServerProfile, SIGN_IN_TTL_S } from '../provider.ts';
import { MCP_SCOPE } from '../tokens/access-token.ts';
import { createGrants, createRevocation } from '../tokens/grants.ts';
import { ACCESS_TOKEN_TTL_S, mcpResource, shopClaims } from '../tokens/issue.ts';
import { namesOnly, takePublicClient } from '../tokens/token-resource.ts';
import { isMember } from './account.ts';
import { checkAuthorizeRequest } from './authorize-request.ts';
import { consentForm } from './consent.ts';
import { createCookies } from './cookies.ts';
import { createOneTimeRecords, type OneTimeRecords } from './one-time-records.ts';
import {
  createHandlers,
  createSignInServer,
  field,
  forwardOrFail,
  fromOf,
  type Handlers,
  readForm,
  requestIdOf,
  resumeOrRedirect,
  type SignInServer,
  sendUnavailable,
} from './serve.ts';
import { createSignIn, type SignIn } from './sign-in.ts';
import { createUpstream } from './upstream.ts';

type SignInConfig = NonNullable<OAuthDependencies['signIn']>;

/** Where the identity provider sends browsers, after sign-ins of both authorization servers. */
export function callbackOf(issuer: string): string {
  return `${issuer}/oauth/callback`;
}

/** The sign-ins of another authorization server that has the same callback. */
export interface OtherCallback {
  /** Whether a sign-in of that server has this `state`. */
  owns(state: string): Promise<boolean>;
  /** Handles the redirect from the identity provider. @param url the requested URL, with code and state. */
  handle(req: IncomingMessage, url: URL): Promise<PageResponse>;
}

/** Registers the paths of a sign-in, from `/oauth/authorize` to `/oauth/token`. */
export function signInRoutes(o: OAuthDependencies, other: OtherCallback | undefined): Router {
  const router = Router(EXACT_PATHS);
  if (!o.signIn) return withoutSignIn(router, o);
  const { server, signIn } = createAssistantSignIn(o, o.signIn);
  const handlers = createHandlers(o, server);
  endpoint(router, '/oauth/authorize', {
    GET: [
      o.limits.authorize,
      async (req, res) => {
        const checked = checkAuthorizeRequest(o.clients, o.issuer, queryOf(req));
        if ('rejection' in checked) {
          const event = { ...requestIdOf(res), detail: checked.reason };
          o.logger.warn(event, 'authorization refused');
          return sendPage(res, checked.rejection);
        }
        await forwardOrFail(o, server, { req, res, url: `/oauth/authorize?${checked.query}` });
      },
    ],
  });
  endpoint(router, '/oauth/authorize/:uid', {
    GET: [
      o.limits.resume,
      (req, res) => resumeOrRedirect(o, server, { req, res, currentPage: signIn.currentPage }),
    ],
  });
  formRoutes(router, o, { signIn, handlers });
  endpoint(router, '/oauth/callback', {
    GET: [
      o.limits.callback,
      handlers.pageHandler(async (req) => {
        const query = queryOf(req);
        const hasRepeated = [...new Set(query.keys())].some(
          (name) => query.getAll(name).length > 1,
        );
        if (hasRepeated) return ended();
        const url = new URL(`${callbackOf(o.issuer)}?${query}`);
        const isOthers = (await other?.owns(query.get('state') ?? '')) ?? false;
        if (other && isOthers) return other.handle(req, url);
        return signIn.handleCallback(req, url);
      }),
    ],
  });
  dataRoutes(router, o, { config: o.signIn, server, handlers });
  return router;
}

/** Registers the pages and forms of a sign-in. `formHandler` protects them. */
function formRoutes(
  router: Router,
  { limits: { signInPages } }: OAuthDependencies,
  { signIn, handlers: { formHandler } }: { readonly signIn: SignIn; readonly handlers: Handlers },
): void {
  // Count the request before its body is read.
  const form = [signInPages, ...readForm];
  endpoint(router, '/oauth/sign-in/:uid', {
    GET: [signInPages, formHandler((uid) => signIn.showEmailForm(uid))],
    POST: [...form, formHandler((uid, req) => signIn.submitEmail(req, uid, field(req, 'email')))],
  });
  endpoint(router, '/oauth/sign-in/:uid/shop', {
    POST: [...form, formHandler((uid, req) => signIn.submitShop(req, uid, field(req, 'shop_id')))],
  });
  endpoint(router, '/oauth/sign-in/:uid/consent', {
    GET: [signInPages, formHandler((uid, req) => signIn.showConsentForm(req, uid))],
  });
  endpoint(router, '/oauth/sign-in/:uid/allow', {
    POST: [
      ...form,
      formHandler(async (uid, req) => {
        const sent = consentForm.safeParse(req.body).data;
        if (!sent) return unknownChoice();
        return sent.consent === 'deny' ? signIn.cancel(uid) : signIn.allow(req, uid, sent);
      }),
    ],
  });
  endpoint(router, '/oauth/sign-in/:uid/cancel', {
    POST: [...form, formHandler((uid) => signIn.cancel(uid))],
  });
}

/** Registers the paths that programs call: signing keys, tokens and revocation. */
function dataRoutes(
  router: Router,
  o: OAuthDependencies,
  {
    config,
    server,
    handlers: { dataHandler },
  }: {
    readonly config: SignInConfig;
    readonly server: SignInServer;
    readonly handlers: Handlers;
  },
): void {
  endpoint(router, '/oauth/jwks', {
    before: [allowAnyOrigin('GET')],
    GET: [
      o.limits.jwks,
      dataHandler(async (_req, res) => {
        const published = await config.keys.verifying();
        res.json({ keys: published.map(({ publicJwk }) => publicJwk) });
      }),
    ],
  });
  endpoint(router, '/oauth/token', {
    before: [allowAnyOrigin('POST')],
    POST: [
      o.limits.token,
      receiveForm,
      dataHandler((req, res) => {
        // Errors are JSON for every client (RFC 6749, 5.2). oidc-provider would send a page to one that prefers HTML.
        req.headers.accept = 'application/json';
        const resource = mcpResource(o.issuer);
        const clientId = takePublicClient(req);
        if (!namesOnly(req, { resource, addresses: [o.issuer], scopes: [MCP_SCOPE], clientId })) {
          o.logger.warn({ ...requestIdOf(res), error: 'invalid_target' }, 'token refused');
          const error_description = `the only resource is ${resource}`;
          res.status(400).json({ error: 'invalid_target', error_description });
          return Promise.resolve();
        }
        return server.forward(req, res, '/oauth/token');
      }),
    ],
  });
  const revoke = createRevocation({ ...o, keys: config.keys });
  endpoint(router, '/oauth/revoke', {
    before: [allowAnyOrigin('POST')],
    POST: [
      o.limits.revoke,
      ...readForm,
      dataHandler(async (req, res) => {
        const [token, clientId] = [field(req, 'token'), field(req, 'client_id')];
        const response = await revoke({ token, clientId, from: fromOf(o, req, res) });
        res.status(response.status);
        if ('body' in response) res.json(response.body);
        else res.end();
      }),
    ],
  });
}

function withoutSignIn(router: Router, o: OAuthDependencies): Router {
  endpoint(router, '/oauth/authorize', {
    GET: [
      o.limits.authorize,
      (_req, res) => sendPage(res, unavailable('Sign-in is not set up here.')),
    ],
  });
  endpoint(router, '/oauth/token', {
    before: [allowAnyOrigin('POST')],
    POST: [o.limits.token, (_req, res) => sendUnavailable(res)],
  });
  router.use('/oauth', (_req, res) => sendUnavailable(res));
  return router;
}

function createAssistantSignIn(
  o: OAuthDependencies,
  { keys, provider }: SignInConfig,
): { readonly server: SignInServer; readonly signIn: SignIn } {
  const { pool, issuer, clients, logger, grantDays, formOrigins } = o;
  const records = createOneTimeRecords(pool);
  const server = createSignInServer({
    profile: assistantProfile(o, records),
    cookies: createCookies(issuer, SIGN_IN_TTL_S),
    keys,
    logger,
    begin: (req, request) => signIn.begin(req, request),
  });
  const signIn = createSignIn({
    pool,
    records,
    selfNames: createSelfNames(records, o.clientIp),
    clients,
    cookies: server.cookies,
    grantDays,
    formOrigins,
    upstream: createUpstream({ ...provider, redirectUri: callbackOf(issuer) }),
    requests: server.requests,
    logger,
  });
  return { server, signIn };
}

/** How long a refresh token works after its first use. Milliseconds. */
const REFRESH_GRACE_MS = 30_000;

/** The authorization server of assistants. Its clients are public. */
function assistantProfile(o: OAuthDependencies, records: OneTimeRecords): ServerProfile {
  const { pool, issuer, clients, grantDays } = o;
  const resource = mcpResource(issuer);
  return {
    issuer,
    resource,
    paths: {
      authorization: '/oauth/authorize',
      token: '/oauth/token',
      jwks: '/oauth/provider-jwks',
      signIn: '/oauth/sign-in',
    },
    records,
    grants: createGrants({ ...o, resource }),
    refreshGraceMs: REFRESH_GRACE_MS,
    clients: {
      clients: clients.ids.map((clientId) => ({
        ...CLIENT_METADATA,
        client_id: clientId,
        redirect_uris: ['http://127.0.0.1/'],
        application_type: 'native' as const,
        grant_types: ['authorization_code', 'refresh_token'],
        token_endpoint_auth_method: 'none' as const,
      })),
      clientAuthMethods: ['none'],
    },
    accessTokenTtlS: ACCESS_TOKEN_TTL_S,
    grantDays,
    scopesOf: async () => [MCP_SCOPE],
    claimsOf: shopClaims,
    mayAct: (account) => isMember(pool, account),
    // Check redirect URIs with the list of supported clients. Without this, oidc-provider would use the metadata above.
    prepare(server) {
      server.Client.prototype.redirectUriAllowed = function redirectUriAllowed(uri: string) {
        return clients.allows(this.clientId, uri);
      };
    },
  };
}
