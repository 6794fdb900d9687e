import type { IncomingMessage, ServerResponse } from 'node:http';
import Provider, {
  type Configuration,
  errors,
  interactionPolicy,
  type KoaContextWithOIDC,
} from 'oidc-provider';
import type { Logger } from '../../services/platform/telemetry/log.ts';
import { type AdapterOptions, createAdapters, failingClosed } from './adapter.ts';
import {
  badRequest,
  ended,
  type PageResponse,
  RETRY_AFTER_S,
  unavailable,
} from './pages/response.ts';
import { type Account, parseAccountId } from './sign-in/account.ts';
import { MAX_AGE } from './sign-in/authorize-request.ts';
import type { Cookies } from './sign-in/cookies.ts';
import { CONNECT_AGAIN, failurePage } from './sign-in/failure-page.ts';
import { type AuthorizationRequest, requestOf } from './sign-in/requests.ts';
import { DAY_S } from './tokens/issue.ts';
import { type OAuthKeys, SIGNING_ALG, type SigningKey } from './tokens/keys.ts';

/** What differs between the two authorization servers: that of assistants, and that of partners' apps. */
export interface ServerProfile
  extends Pick<AdapterOptions, 'records' | 'grants' | 'findClient' | 'refreshGraceMs'> {
  readonly issuer: string;
  /** The audience of all tokens: the only resource that they may be for (RFC 8707). */
  readonly resource: string;
  readonly paths: {
    readonly authorization: string;
    readonly token: string;
    /** Not served: `dataRoutes` serve the keys. */
    readonly jwks: string;
    /** The pages of one sign-in, see {@link signInPath}. */
    readonly signIn: string;
  };
  /** The clients of the configuration, and how clients prove themselves. */
  readonly clients: Pick<Configuration, 'clients' | 'clientAuthMethods'>;
  /** Lifetime of an access token. Seconds. */
  readonly accessTokenTtlS: number;
  /** Maximum lifetime of a grant. Days. */
  readonly grantDays: number;
  /** The scopes that a token may have. @param grantId the grant of a token request; undefined before there is one. */
  scopesOf(grantId: string | undefined): Promise<readonly string[]>;
  /** Our own claims in an access token. */
  claimsOf(o: { readonly shopId: bigint; readonly grantId: string }): Record<string, unknown>;
  /** Whether the user may still act, or let a client act, in the shop. */
  mayAct(account: Account): Promise<boolean>;
  /** Changes how oidc-provider checks clients. */
  prepare?(provider: Provider): void;
}

/** Runs oidc-provider with the newest signing key. */
interface AuthorizationServer {
  /** Returns oidc-provider with the newest signing key. Rejects when the database is unavailable. */
  current(): Promise<Provider>;
  /** Handles one request. Rejects when the database is unavailable. */
  handle(req: IncomingMessage, res: ServerResponse): Promise<void>;
}

interface AuthorizationServerOptions extends Omit<ProviderOptions, 'renderError'> {
  readonly keys: OAuthKeys;
  readonly logger: Logger;
  /** Returns the first page for a valid authorization request. */
  readonly begin: (req: IncomingMessage, request: AuthorizationRequest) => Promise<PageResponse>;
}

export function createAuthorizationServer(o: AuthorizationServerOptions): AuthorizationServer {
  let built:
    | {
        readonly kid: string;
        readonly provider: Provider;
        readonly callback: ReturnType<Provider['callback']>;
      }
    | undefined;
  const newest = async (): Promise<NonNullable<typeof built>> => {
    const key = await o.keys.signing();
    if (built?.kid === key.kid) return built;
    const provider = build(o, key);
    built = { kid: key.kid, provider, callback: provider.callback() };
    return built;
  };
  const { host, protocol } = new URL(o.profile.issuer);
  return {
    current: async () => (await newest()).provider,
    async handle(req, res) {
      const { callback } = await newest();
      // oidc-provider builds its URLs and cookies from these headers. Set them here, so that the client cannot choose
      // their values.
      req.headers.host = host;
      req.headers['x-forwarded-host'] = host;
      req.headers['x-forwarded-proto'] = protocol.slice(0, -1);
      await callback(req, res);
    },
  };
}

function build(
  o: AuthorizationServerOptions,
  key: Awaited<ReturnType<OAuthKeys['signing']>>,
): Provider {
  const provider = createProvider(
    { ...o, renderError: (ctx, out) => writePage(ctx, errorPage(out.error, ctx.oidc.route)) },
    key,
  );
  logTokens(provider, o.logger);
  provider.on('server_error', (_ctx, err) => o.logger.error({ err }, 'sign-in failed'));
  // The middleware below logs the other errors. Without this, Koa would print them as well.
  provider.silent = true;
  provider.use(async (ctx, next) => {
    try {
      await next();
      if (ctx.status === 503) ctx.set('Retry-After', String(RETRY_AFTER_S));
      dropCookie(ctx, o.cookies.names.session);
      const interaction = ctx.oidc?.route === 'authorization' && ctx.oidc.entities.Interaction;
      const request = interaction && ctx.status === 303 ? requestOf(interaction) : undefined;
      if (request) writePage(ctx, await o.begin(ctx.req, request));
    } catch (error) {
      writePage(ctx, failurePage(error, o.logger));
    }
  });
  return provider;
}

/** The part of Koa's context that writes a response. */
interface Context {
  status: number;
  body: unknown;
  readonly response: { get(name: string): string | string[] | undefined };
  set(name: string, value: string | string[]): void;
  append(name: string, value: string): void;
  remove(name: string): void;
}

/** Removes the session cookie from the response, because sessions are not stored. */
function dropCookie(ctx: Context, name: string): void {
  const cookies = [ctx.response.get('Set-Cookie') ?? ''].flat().filter((cookie) => cookie !== '');
  const others = cookies.filter((cookie) => !cookie.startsWith(`${name}=`));
  if (others.length === cookies.length) return;
  ctx.remove('Set-Cookie');
  if (others.length > 0) ctx.set('Set-Cookie', others);
}

function writePage(ctx: Context, page: PageResponse): void {
  ctx.remove('Location');
  for (const [name, value] of Object.entries(page.headers)) ctx.set(name, value);
  for (const cookie of page.cookies) ctx.append('Set-Cookie', cookie);
  ctx.body = page.body;
  ctx.status = page.status;
  // Koa guesses the content type of each body and overwrites the header. Restore the header of the page.
  const type = page.headers['Content-Type'];
  if (type === undefined) ctx.remove('Content-Type');
  else ctx.set('Content-Type', type);
}

/**
 * @param error the OAuth error code.
 * @param route oidc-provider's name of the route.
 */
function errorPage(error: string, route: string): PageResponse {
  switch (error) {
    case 'temporarily_unavailable':
    case 'server_error':
      // On `resume`, oidc-provider deletes the authorization request before it stores the code. So a retry would fail.
      return unavailable(route === 'resume' ? CONNECT_AGAIN : 'Try again in a moment.');
    case 'invalid_request':
    case 'access_denied':
      // The cookie of the browser or the stored request no longer exists.
      return ended();
    default:
      return badRequest('The app that sent you here sent a request that we do not support.');
  }
}

/**
 * Error details of this form are logged. Longer texts and other characters are not, because they may be data of the
 * caller.
 */
const DETAIL = /^[a-zA-Z0-9 _(),.;:-]{1,120}$/;

/**
 * Logs issued, refreshed and rejected tokens, with user, shop, client, grant and request id. Never logs a token or a
 * code.
 */
function logTokens(provider: Provider, logger: Logger): void {
  provider.on('grant.success', (ctx) => {
    const token = ctx.oidc.entities.AccessToken;
    const account = parseAccountId(token?.accountId ?? '');
    const isRefresh = ctx.oidc.params?.grant_type === 'refresh_token';
    logger.info(
      {
        ...tokenRequestOf(ctx),
        ...(account && { userId: String(account.userId), shopId: String(account.shopId) }),
        clientId: ctx.oidc.client?.clientId,
        grantId: token?.grantId,
      },
      isRefresh ? 'token refreshed' : 'token issued',
    );
  });
  provider.on('grant.error', (ctx, error) => {
    logger.warn({ ...tokenRequestOf(ctx), ...reasonOf(error) }, 'token refused');
  });
  provider.on('authorization.error', (ctx, error) => {
    logger.warn({ ...tokenRequestOf(ctx), ...reasonOf(error) }, 'authorization refused');
  });
}

/** The id of the HTTP request, as in the access log, and the client id. */
function tokenRequestOf(ctx: KoaContextWithOIDC) {
  return {
    requestId: ctx.res.getHeader('X-Request-Id'),
    clientId: ctx.oidc?.client?.clientId,
  };
}

function reasonOf(error: Error): { error: string; detail?: string } {
  const name: unknown = Reflect.get(error, 'error');
  const detail: unknown = Reflect.get(error, 'error_detail') ?? error.message;
  return {
    error: typeof name === 'string' ? name : error.name,
    ...(typeof detail === 'string' && DETAIL.test(detail) && { detail }),
  };
}

const CODE_TTL_S = 60;
const REFRESH_TTL_S = 30 * 24 * 3_600;
/** Maximum time from the first page of a sign-in to the last. Seconds. */
export const SIGN_IN_TTL_S = 15 * 60;

/** The path of the pages of one sign-in of an assistant. */
export function signInPath(uid: string): string {
  return `/oauth/sign-in/${uid}`;
}

interface ProviderOptions {
  readonly profile: ServerProfile;
  readonly cookies: Cookies;
  /** Time since the current request arrived. Milliseconds. */
  readonly arrivedMsAgo: () => number;
  /** Writes the error page into the response. */
  readonly renderError: NonNullable<Configuration['renderError']>;
}

/**
 * Creates oidc-provider with one signing key. All its state is in the database, so that an instance with a newer key
 * can replace it at any time.
 */
function createProvider(o: ProviderOptions, key: SigningKey): Provider {
  const provider = new Provider(o.profile.issuer, configuration(o, key));
  o.profile.prepare?.(provider);
  // Trust the X-Forwarded headers: `handle` above sets them in every request.
  provider.proxy = true;
  return provider;
}

type Features = NonNullable<Configuration['features']>;

function configuration(o: ProviderOptions, key: SigningKey): Configuration {
  const { profile } = o;
  const { authorization, token, jwks, signIn } = profile.paths;
  return {
    adapter: createAdapters({ ...profile, arrivedMsAgo: o.arrivedMsAgo }),
    ...profile.clients,
    ...CLIENT_RULES,
    ...tokenRules(profile, key),
    routes: { authorization, token, jwks },
    cookies: { names: o.cookies.names, short: o.cookies.options, long: o.cookies.options },
    extraParams: [MAX_AGE],
    findAccount: async (ctx, id) => {
      const account = parseAccountId(id);
      if (account && (await failingClosed(profile.mayAct(account)))) {
        return { accountId: id, claims: () => ({ sub: id }) };
      }
      // On `resume`, oidc-provider reads the grant of the account, but does not check that the account exists.
      if (ctx.oidc.route === 'resume') throw new errors.AccessDenied('the membership has ended');
      return undefined;
    },
    interactions: { policy: policy(), url: (_ctx, { uid }) => `${signIn}/${uid}` },
    features: {
      devInteractions: { enabled: false },
      dPoP: { enabled: false },
      pushedAuthorizationRequests: { enabled: false },
      rpInitiatedLogout: { enabled: false },
      userinfo: { enabled: false },
      resourceIndicators: onlyResource(profile),
    },
    renderError: o.renderError,
  };
}

/** Clients may only use an authorization code with PKCE (S256, the only method of oidc-provider). */
const CLIENT_RULES: Configuration = {
  responseTypes: ['code'],
  scopes: [],
  pkce: { required: () => true },
  allowOmittingSingleRegisteredRedirectUri: false,
};

/** The metadata that every client has here. */
export const CLIENT_METADATA = {
  response_types: ['code' as const],
  id_token_signed_response_alg: 'ES256' as const,
};

/** The settings about tokens: signing, claims and lifetimes. */
function tokenRules(profile: ServerProfile, key: SigningKey): Configuration {
  const accountOf = (token: object) =>
    parseAccountId('accountId' in token ? String(token.accountId) : '');
  return {
    jwks: { keys: [{ ...key.privateJwk, kty: String(key.privateJwk.kty) }] },
    clockTolerance: 0,
    extraTokenClaims: (_ctx, token) => {
      const account = accountOf(token);
      const grantId = 'grantId' in token ? token.grantId : undefined;
      if (!account || typeof grantId !== 'string') throw new Error('the token has no grant');
      return profile.claimsOf({ shopId: account.shopId, grantId });
    },
    formats: {
      customizers: {
        jwt: (_ctx, token, { payload }) => {
          payload.sub = String(accountOf(token)?.userId);
        },
      },
    },
    issueRefreshToken: async (_ctx, client) => client.grantTypeAllowed('refresh_token'),
    rotateRefreshToken: true,
    expiresWithSession: () => false,
    ttl: {
      AccessToken: profile.accessTokenTtlS,
      AuthorizationCode: CODE_TTL_S,
      RefreshToken: REFRESH_TTL_S,
      Grant: profile.grantDays * DAY_S,
      Interaction: SIGN_IN_TTL_S,
      Session: SIGN_IN_TTL_S,
      IdToken: CODE_TTL_S,
    },
  };
}

/** The only resource that tokens may be for (RFC 8707). */
function onlyResource(profile: ServerProfile): Features['resourceIndicators'] {
  const { resource, accessTokenTtlS } = profile;
  return {
    enabled: true,
    defaultResource: () => resource,
    useGrantedResource: () => true,
    getResourceServerInfo: async (ctx, indicator) => {
      if (indicator !== resource) throw new errors.InvalidTarget();
      const grantId = ctx.oidc.route === 'token' ? ctx.oidc.entities.Grant?.jti : undefined;
      const scopes = await failingClosed(profile.scopesOf(grantId));
      return {
        scope: scopes.join(' '),
        audience: resource,
        accessTokenFormat: 'jwt',
        accessTokenTTL: accessTokenTtlS,
        jwt: { sign: { alg: SIGNING_ALG } },
      };
    },
  };
}

/** Every authorization request needs its own sign-in. An earlier sign-in never counts. */
function policy() {
  const { Check, Prompt } = interactionPolicy;
  const isNew = new Check(
    'sign_in',
    'each request needs a sign-in',
    (ctx) => !ctx.oidc.result?.login,
  );
  return [
    new Prompt({ name: 'login', requestable: true }, isNew),
    new Prompt({ name: 'consent', requestable: true }),
    new Prompt({ name: 'select_account', requestable: true }),
  ];
}
