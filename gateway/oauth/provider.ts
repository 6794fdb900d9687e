import Provider, { type Configuration, errors, interactionPolicy } from 'oidc-provider';
import type pg from 'pg';
import { MCP_SCOPE } from './access-token.ts';
import { isMember, parseAccountId } from './account.ts';
import { createAdapters, failingClosed } from './adapter.ts';
import { MAX_AGE } from './authorize-request.ts';
import type { SupportedClients } from './clients/supported-clients.ts';
import type { Cookies } from './cookies.ts';
import type { Grants } from './grants.ts';
import { ACCESS_TOKEN_TTL_S, DAY_S, mcpResource, shopClaims } from './issue.ts';
import { SIGNING_ALG, type SigningKey } from './keys.ts';
import type { OneTimeRecords } from './one-time-records.ts';

const CODE_TTL_S = 60;
const REFRESH_TTL_S = 30 * 24 * 3_600;
/** Maximum time from the first page of a sign-in to the last. Seconds. */
export const SIGN_IN_TTL_S = 15 * 60;

/** The path of the pages of one sign-in. */
export function signInPath(uid: string): string {
  return `/oauth/sign-in/${uid}`;
}

export interface ProviderOptions {
  readonly issuer: string;
  readonly pool: pg.Pool;
  readonly records: OneTimeRecords;
  readonly grants: Grants;
  readonly clients: SupportedClients;
  readonly cookies: Cookies;
  /** Maximum lifetime of a grant. Days. */
  readonly grantDays: number;
  /** Time since the current request arrived. Milliseconds. */
  readonly arrivedMsAgo: () => number;
  /** Writes the error page into the response. */
  readonly renderError: NonNullable<Configuration['renderError']>;
}

/**
 * Creates oidc-provider with one signing key. All its state is in the database, so that an instance with a newer key
 * can replace it at any time.
 */
export function createProvider(o: ProviderOptions, key: SigningKey): Provider {
  const provider = new Provider(o.issuer, configuration(o, key));
  // Check redirect URIs with the list of supported clients. Without this, oidc-provider would use the metadata in
  // `clientRules`.
  provider.Client.prototype.redirectUriAllowed = function redirectUriAllowed(uri: string) {
    return o.clients.allows(this.clientId, uri);
  };
  // Trust the X-Forwarded headers: `authorization-server.ts` sets them in every request.
  provider.proxy = true;
  return provider;
}

type Features = NonNullable<Configuration['features']>;

function configuration(o: ProviderOptions, key: SigningKey): Configuration {
  return {
    adapter: createAdapters(o),
    ...clientRules(o),
    ...tokenRules(o, key),
    routes: {
      authorization: '/oauth/authorize',
      token: '/oauth/token',
      jwks: '/oauth/provider-jwks',
    },
    cookies: { names: o.cookies.names, short: o.cookies.options, long: o.cookies.options },
    extraParams: [MAX_AGE],
    findAccount: async (ctx, id) => {
      const account = parseAccountId(id);
      if (account && (await failingClosed(isMember(o.pool, account)))) {
        return { accountId: id, claims: () => ({ sub: id }) };
      }
      // On `resume`, oidc-provider reads the grant of the account, but does not check that the account exists.
      if (ctx.oidc.route === 'resume') throw new errors.AccessDenied('the membership has ended');
      return undefined;
    },
    interactions: { policy: policy(), url: (_ctx, { uid }) => signInPath(uid) },
    features: {
      devInteractions: { enabled: false },
      dPoP: { enabled: false },
      pushedAuthorizationRequests: { enabled: false },
      rpInitiatedLogout: { enabled: false },
      userinfo: { enabled: false },
      resourceIndicators: onlyResource(mcpResource(o.issuer)),
    },
    renderError: o.renderError,
  };
}

/** The settings about clients: they are public, and may only use an authorization code with PKCE. */
function clientRules({ clients }: ProviderOptions): Configuration {
  return {
    clients: clients.ids.map((clientId) => ({
      client_id: clientId,
      redirect_uris: ['http://127.0.0.1/'],
      application_type: 'native' as const,
      grant_types: ['authorization_code', 'refresh_token'],
      response_types: ['code' as const],
      token_endpoint_auth_method: 'none' as const,
      id_token_signed_response_alg: SIGNING_ALG,
    })),
    clientAuthMethods: ['none'],
    responseTypes: ['code'],
    scopes: [],
    pkce: { required: () => true },
    allowOmittingSingleRegisteredRedirectUri: false,
  };
}

/** The settings about tokens: signing, claims and lifetimes. */
function tokenRules(o: ProviderOptions, key: SigningKey): Configuration {
  const accountOf = (token: object) =>
    parseAccountId('accountId' in token ? String(token.accountId) : '');
  return {
    jwks: { keys: [{ ...key.privateJwk, kty: String(key.privateJwk.kty) }] },
    clockTolerance: 0,
    extraTokenClaims: (_ctx, token) => {
      const account = accountOf(token);
      const grantId = 'grantId' in token ? token.grantId : undefined;
      if (!account || typeof grantId !== 'string') throw new Error('the token has no grant');
      return shopClaims({ shopId: account.shopId, grantId });
    },
    formats: {
      customizers: {
        jwt: (_ctx, token, { payload }) => {
          payload.sub = String(accountOf(token)?.userId);
        },
      },
    },
    issueRefreshToken: () => true,
    rotateRefreshToken: true,
    expiresWithSession: () => false,
    ttl: {
      AccessToken: ACCESS_TOKEN_TTL_S,
      AuthorizationCode: CODE_TTL_S,
      RefreshToken: REFRESH_TTL_S,
      Grant: o.grantDays * DAY_S,
      Interaction: SIGN_IN_TTL_S,
      Session: SIGN_IN_TTL_S,
      IdToken: CODE_TTL_S,
    },
  };
}

/** The only resource that tokens may be for is the MCP server (RFC 8707). */
function onlyResource(resource: string): Features['resourceIndicators'] {
  return {
    enabled: true,
    defaultResource: () => resource,
    useGrantedResource: () => true,
    getResourceServerInfo: (_ctx, indicator) => {
      if (indicator !== resource) throw new errors.InvalidTarget();
      return {
        scope: MCP_SCOPE,
        audience: resource,
        accessTokenFormat: 'jwt',
        accessTokenTTL: ACCESS_TOKEN_TTL_S,
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
