import type { IncomingMessage } from 'node:http';
import { type Request, Router } from 'express';
import type { ClientMetadata } from 'oidc-provider';
import { Actor_Kind } from '../../../proto/gen/rms/common/v1/actor_pb.ts';
import { PARTNER_SCOPES } from '../../../services/contract/operations.ts';
import { inTransaction } from '../../../services/platform/postgres/postgres.ts';
import { receiveForm } from '../../http/bound-sign-in.ts';
import { EXACT_PATHS, endpoint } from '../../http/endpoint.ts';
import { queryOf } from '../../http/query.ts';
import type { Author } from '../../tenancy/audit.ts';
import { findPartnerApp, isPartnerSecret, type PartnerApp } from '../../tenancy/partner-apps.ts';
import { endPartnerGrants, findPartnerGrant } from '../../tenancy/partner-grants.ts';
import { mayConnectApps } from '../../tenancy/partner-scopes.ts';
import { allowAnyOrigin } from '../cors.ts';
import type { OAuthDependencies } from '../dependencies.ts';
import { sendPage, unavailable } from '../pages/response.ts';
import { CLIENT_METADATA, type ServerProfile, SIGN_IN_TTL_S } from '../provider.ts';
import { shopOfMember } from '../sign-in/account.ts';
import { createCookies } from '../sign-in/cookies.ts';
import { createOneTimeRecords, type OneTimeRecords } from '../sign-in/one-time-records.ts';
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
} from '../sign-in/serve.ts';
import { callbackOf, type OtherCallback } from '../sign-in/sign-in-routes.ts';
import { createUpstream } from '../sign-in/upstream.ts';
import { ownerOfRefreshToken } from '../tokens/grants.ts';
import { namesOnly, takePublicClient } from '../tokens/token-resource.ts';
import { PARTNER_PATHS, partnerIssuer } from './address.ts';
import { checkPartnerRequest } from './authorize-request.ts';
import { createPartnerGrants } from './grants.ts';
import { createPartnerSignIn, type PartnerSignIn } from './sign-in.ts';
import {
  PARTNER_GRANT_DAYS,
  PARTNER_TOKEN_TTL_S,
  partnerClaims,
  verifyPartnerToken,
} from './tokens.ts';

type PartnerConfig = NonNullable<OAuthDependencies['signIn']>;

interface PartnerRoutes {
  readonly router: Router;
  /** Undefined when nobody can sign in. */
  readonly callback: OtherCallback | undefined;
}

/** Registers the paths of the authorization server for partners' apps, except for its metadata. */
export function partnerRoutes(o: OAuthDependencies): PartnerRoutes {
  const router = Router(EXACT_PATHS);
  if (!o.signIn) return { router: withoutSignIn(router, o), callback: undefined };
  const records = createOneTimeRecords(o.pool, 'partner_tickets');
  const { server, signIn } = createPartnerServer(o, o.signIn, records);
  const handlers = createHandlers(o, server);
  pageRoutes(router, o, { server, signIn, handlers });
  dataRoutes(router, o, { config: o.signIn, records, server, handlers });
  return { router, callback: signIn.callback };
}

interface PageParts {
  readonly server: SignInServer;
  readonly signIn: PartnerSignIn;
  readonly handlers: Handlers;
}

function pageRoutes(router: Router, o: OAuthDependencies, parts: PageParts): void {
  const { server, signIn, handlers } = parts;
  const { formHandler } = handlers;
  const { authorization, signIn: pages } = PARTNER_PATHS;
  endpoint(router, authorization, {
    GET: [
      o.limits.partnerAuthorize,
      async (req, res) => {
        const checked = await handlers.orFailurePage(res, () =>
          checkPartnerRequest(queryOf(req), {
            issuer: partnerIssuer(o.issuer),
            resource: o.issuer,
            find: (clientId) => findPartnerApp(o.pool, clientId),
          }),
        );
        if (!checked) return;
        if ('rejection' in checked) {
          o.logger.warn({ ...requestIdOf(res), detail: checked.reason }, 'authorization refused');
          return sendPage(res, checked.rejection);
        }
        await forwardOrFail(o, server, { req, res, url: `${authorization}?${checked.query}` });
      },
    ],
  });
  endpoint(router, `${authorization}/:uid`, {
    GET: [
      o.limits.resume,
      (req, res) => resumeOrRedirect(o, server, { req, res, currentPage: signIn.currentPage }),
    ],
  });
  const form = [o.limits.signInPages, ...readForm];
  endpoint(router, `${pages}/:uid`, {
    GET: [o.limits.signInPages, formHandler((uid, req) => signIn.proceed(req, uid))],
  });
  endpoint(router, `${pages}/:uid/consent`, {
    GET: [o.limits.signInPages, formHandler((uid, req) => signIn.showForm(req, uid))],
  });
  endpoint(router, `${pages}/:uid/shop`, {
    POST: [...form, formHandler((uid, req) => signIn.chooseShop(req, uid, field(req, 'shop_id')))],
  });
  endpoint(router, `${pages}/:uid/allow`, {
    POST: [...form, formHandler((uid, req) => signIn.decide(req, uid, req.body))],
  });
  endpoint(router, `${pages}/:uid/cancel`, {
    POST: [...form, formHandler((uid) => signIn.cancel(uid))],
  });
}

interface DataParts {
  readonly config: PartnerConfig;
  readonly records: OneTimeRecords;
  readonly server: SignInServer;
  readonly handlers: Handlers;
}

/** Registers the paths that programs call: signing keys, tokens and revocation. */
function dataRoutes(router: Router, o: OAuthDependencies, parts: DataParts): void {
  const { config, server } = parts;
  const { dataHandler } = parts.handlers;
  endpoint(router, PARTNER_PATHS.jwks, {
    before: [allowAnyOrigin('GET')],
    GET: [
      o.limits.jwks,
      dataHandler(async (_req, res) => {
        const published = await config.partnerKeys.verifying();
        res.json({ keys: published.map(({ publicJwk }) => publicJwk) });
      }),
    ],
  });
  endpoint(router, PARTNER_PATHS.token, {
    before: [allowAnyOrigin('POST')],
    POST: [
      o.limits.partnerToken,
      receiveForm,
      dataHandler((req, res) => {
        // Errors are JSON for every client (RFC 6749, 5.2). oidc-provider would send a page to one that prefers HTML.
        req.headers.accept = 'application/json';
        const clientId = takePublicClient(req);
        if (!namesOnly(req, { resource: o.issuer, scopes: PARTNER_SCOPES, clientId })) {
          o.logger.warn({ ...requestIdOf(res), error: 'invalid_target' }, 'token refused');
          const error_description = `the only resource is ${o.issuer}`;
          res.status(400).json({ error: 'invalid_target', error_description });
          return Promise.resolve();
        }
        return server.forward(req, res, PARTNER_PATHS.token);
      }),
    ],
  });
  endpoint(router, PARTNER_PATHS.revocation, {
    before: [allowAnyOrigin('POST')],
    POST: [
      o.limits.partnerToken,
      ...readForm,
      dataHandler(async (req, res) => {
        const app = await authenticateApp(o, req);
        if (!app) o.logger.warn({ error: 'invalid_client' }, 'revocation refused');
        const response = app
          ? await revoke(o, parts, { app, token: field(req, 'token'), from: fromOf(o, req, res) })
          : oauthError(401, 'invalid_client', 'no such app, or another secret');
        res.status(response.status);
        // RFC 6749, 5.2.
        if (!app && req.headers.authorization !== undefined)
          res.setHeader('WWW-Authenticate', `Basic realm="${partnerIssuer(o.issuer)}"`);
        if ('body' in response) res.json(response.body);
        else res.end();
      }),
    ],
  });
}

type RevocationResponse =
  | { readonly status: 200 }
  | {
      readonly status: number;
      readonly body: { readonly error: string; readonly error_description: string };
    };

function oauthError(status: number, error: string, text: string): RevocationResponse {
  return { status, body: { error, error_description: text } };
}

/**
 * Revokes a token of an app (RFC 7009). To revoke an access token or a refresh token ends its grant and all tokens of
 * the grant. The app stays installed. `token_type_hint` is ignored.
 */
async function revoke(
  o: OAuthDependencies,
  { config, records }: DataParts,
  sent: {
    readonly app: PartnerApp;
    readonly token: string;
    readonly from: Pick<Author, 'source' | 'requestId'>;
  },
): Promise<RevocationResponse> {
  const { app, token, from } = sent;
  if (token === '')
    return oauthError(400, 'invalid_request', 'send one parameter token, in a form');
  const owner =
    (await ownerOfRefreshToken(records, token)) ?? (await ownerOfAccessToken(o, config, token));
  // An unknown or expired token counts as revoked (RFC 7009, 2.2).
  if (!owner) return { status: 200 };
  if (owner.clientId !== app.clientId) {
    return oauthError(400, 'unauthorized_client', 'the token belongs to another app');
  }
  const actor = { kind: Actor_Kind.PARTNER_APP, id: app.clientId, name: app.name };
  const ended = await inTransaction(o.pool, (tx) =>
    endPartnerGrants(tx, { id: owner.grantId }, { by: { actor, ...from }, why: 'token_revoked' }),
  );
  if (ended > 0) o.logger.info({ ...owner }, 'grant ended by token revocation');
  return { status: 200 };
}

async function ownerOfAccessToken(
  { issuer }: OAuthDependencies,
  { partnerKeys: keys }: PartnerConfig,
  token: string,
): Promise<{ readonly grantId: string; readonly clientId: string } | undefined> {
  const o = { issuer: partnerIssuer(issuer), audience: issuer, keys };
  const verified = await verifyPartnerToken(token, o);
  if (typeof verified === 'string') return undefined;
  return { grantId: verified.claims.grant_id, clientId: verified.claims.client_id };
}

/** The app that sent a request: by `Authorization: Basic`, or by fields of the form (RFC 6749, 2.3.1). */
async function authenticateApp(
  { pool }: OAuthDependencies,
  req: Request,
): Promise<PartnerApp | undefined> {
  const basic = basicOf(req);
  const clientId = basic?.clientId ?? field(req, 'client_id');
  const secret = basic?.secret ?? field(req, 'client_secret');
  const app = await findPartnerApp(pool, clientId);
  if (!app || app.isPublic) return app;
  return (await isPartnerSecret(pool, clientId, secret)) ? app : undefined;
}

function basicOf({ headers }: IncomingMessage) {
  const [, encoded] = /^Basic +(\S+)$/i.exec(headers.authorization ?? '') ?? [];
  if (encoded === undefined) return undefined;
  const [id = '', ...rest] = Buffer.from(encoded, 'base64').toString().split(':');
  const decoded = (text: string): string => new URLSearchParams(`v=${text}`).get('v') ?? '';
  return { clientId: decoded(id), secret: decoded(rest.join(':')) };
}

function withoutSignIn(router: Router, o: OAuthDependencies): Router {
  endpoint(router, PARTNER_PATHS.authorization, {
    GET: [
      o.limits.partnerAuthorize,
      (_req, res) => sendPage(res, unavailable('Sign-in is not set up here.')),
    ],
  });
  endpoint(router, PARTNER_PATHS.token, {
    before: [allowAnyOrigin('POST')],
    POST: [o.limits.partnerToken, (_req, res) => sendUnavailable(res)],
  });
  router.use('/partners', (_req, res) => sendUnavailable(res));
  return router;
}

function createPartnerServer(
  o: OAuthDependencies,
  { partnerKeys, provider }: PartnerConfig,
  records: OneTimeRecords,
): { readonly server: SignInServer; readonly signIn: PartnerSignIn } {
  const { pool, issuer, logger } = o;
  const profile = partnerProfile(o, records);
  const server = createSignInServer({
    profile,
    cookies: createCookies(issuer, SIGN_IN_TTL_S),
    keys: partnerKeys,
    logger,
    begin: (req, request) => signIn.begin(req, request),
  });
  const signIn = createPartnerSignIn({
    pool,
    logger,
    records,
    cookies: server.cookies,
    requests: server.requests,
    upstream: createUpstream({ ...provider, redirectUri: callbackOf(issuer) }),
    issuer: profile.issuer,
    grantDays: profile.grantDays,
  });
  return { server, signIn };
}

/** The authorization server of partners' apps. Its clients are rows of `partner_apps`. */
function partnerProfile(o: OAuthDependencies, records: OneTimeRecords): ServerProfile {
  const { pool } = o;
  const issuer = partnerIssuer(o.issuer);
  return {
    issuer,
    resource: o.issuer,
    // oidc-provider must have a path for the keys. Nobody reaches it, because `dataRoutes` serve them.
    paths: { ...PARTNER_PATHS, jwks: '/partners/provider-jwks' },
    records,
    grants: createPartnerGrants({ ...o, issuer, resource: o.issuer }),
    // A lost response ends the access, so that no thief can use an old token, not even for seconds.
    refreshGraceMs: 0,
    findClient: async (id) => {
      const app = await findPartnerApp(pool, id);
      return app && metadataOf(app);
    },
    clients: { clientAuthMethods: ['client_secret_basic', 'client_secret_post', 'none'] },
    accessTokenTtlS: PARTNER_TOKEN_TTL_S,
    grantDays: PARTNER_GRANT_DAYS,
    async scopesOf(grantId) {
      if (grantId === undefined) return PARTNER_SCOPES;
      return (await findPartnerGrant(pool, grantId))?.scopes ?? [];
    },
    claimsOf: partnerClaims,
    async mayAct(account) {
      const shop = await shopOfMember(pool, account);
      return shop !== undefined && mayConnectApps(shop.role);
    },
    // Only hashes of secrets are stored, and several may work.
    prepare(server) {
      server.Client.prototype.compareClientSecret = function compareClientSecret(secret: string) {
        return isPartnerSecret(pool, this.clientId, secret);
      };
    },
  };
}

/** An app as oidc-provider knows it. */
function metadataOf({ clientId, redirectUris, isPublic }: PartnerApp): ClientMetadata {
  const common = {
    ...CLIENT_METADATA,
    client_id: clientId,
    redirect_uris: [...redirectUris],
    application_type: 'web' as const,
  };
  if (isPublic) {
    const grant_types = ['authorization_code'];
    return { ...common, grant_types, token_endpoint_auth_method: 'none' };
  }
  return {
    ...common,
    grant_types: ['authorization_code', 'refresh_token'],
    token_endpoint_auth_method: 'client_secret_basic',
    // Required, and never compared: see `compareClientSecret`.
    client_secret: 'not stored',
  };
}
