import Provider, {
  type ClientMetadata,
  type Configuration,
  errors,
  interactionPolicy,
  type JWK,
  type KoaContextWithOIDC,
} from 'oidc-provider';
import { type Account, normalEmail } from './accounts.ts';
import type { Directory } from './directory.ts';
import { renderError } from './error-page.ts';
import { PARTNER_SCOPES } from './scopes.ts';

/** Options of the bundled identity provider. */
export interface IdentityOptions {
  /** `{auth_url}` of the interface: the issuer, and the base URL of `/authorize` and `/oauth/token`. */
  readonly issuer: string;
  /** `{base_url}`: the only resource that partner tokens are for. */
  readonly resource: string;
  readonly partner: {
    /** As the pages name the app. */
    readonly name: string;
    readonly clientId: string;
    readonly clientSecret: string;
    readonly redirectUri: string;
  };
  /** The API reference of the gateway: a public client, which gets the same tokens as a partner's app. */
  readonly reference?: {
    readonly name: string;
    readonly clientId: string;
    readonly redirectUri: string;
  };
  /** The client for the sign-in of this service's own users, which needs only their identity. */
  readonly signIn?: {
    readonly clientId: string;
    readonly clientSecret: string;
    /** The callbacks of assistants' sign-ins and of the portal. */
    readonly redirectUris: readonly string[];
  };
  readonly accounts: readonly Account[];
  /** The shops for which a person may allow an app. */
  readonly directory: Directory;
  /** Private RS256 key; its public half is at `/jwks`. */
  readonly signingKey: JWK;
  readonly cookieSecret: string;
}

/** Lifetime of a partner token; the gateway accepts at most one hour. Seconds. */
export const PARTNER_TOKEN_TTL_S = 3600;

/** An app must ask again after this time, however often it refreshes its tokens. Days. */
export const GRANT_DAYS = 90;
/** Lifetime of a refresh token that is not used. Days. */
const REFRESH_DAYS = 30;
const DAY_S = 86_400;

/** A person must complete the pages in this time. Seconds. */
export const INTERACTION_TTL_S = 600;

/** The shop of each grant, because oidc-provider's grants have no place for it. */
export interface GrantShops {
  find(grantId: string): bigint | undefined;
  put(grantId: string, shopId: bigint): void;
}

/** The options, with what the pages and the tokens share. */
export interface ProviderOptions extends IdentityOptions {
  readonly shops: GrantShops;
}

/**
 * An OpenID provider for local runs: the `{auth_url}` of partner apps, and the sign-in of this
 * service's own users.
 *
 * Partners' access tokens are JWTs with the account in `sub` and the shop that was chosen during sign-in in the claim
 * `shop_id`. Refresh tokens rotate; a second use ends the grant. The sign-in of this service gets an ID token with the
 * user, and an access token that only `/userinfo` accepts.
 */
export function createProvider(options: ProviderOptions): Provider {
  const settings: Configuration = {
    clients: clientsOf(options),
    jwks: { keys: [options.signingKey] },
    cookies: { keys: [options.cookieSecret] },
    claims: { openid: ['sub'], email: ['email', 'email_verified'], profile: ['name'] },
    routes: {
      authorization: '/authorize',
      token: '/oauth/token',
      jwks: '/jwks',
      revocation: '/oauth/revoke',
      userinfo: '/userinfo',
    },
    // As at well-known providers, the ID token contains the e-mail address, and not only the userinfo response.
    conformIdTokenClaims: false,
    interactions: {
      policy: policyFor(options.accounts),
      url: (_ctx, interaction) => `/interaction/${interaction.uid}`,
    },
    // A public client proves with PKCE that it began the sign-in.
    pkce: { required: (_ctx, client) => client.clientId === options.reference?.clientId },
    clientBasedCORS: (_ctx, origin, client) => isReferenceAt(options, origin, client.clientId),
    findAccount: async (_ctx, id, token) => {
      const account = options.accounts.find((one) => one.id === id);
      if (!account || !(await mayStillConnect(options, account, token))) return undefined;
      return { accountId: id, claims: () => claimsOf(account) };
    },
    extraTokenClaims: (_ctx, token) => {
      const shop = shopOf(options, token);
      return shop === undefined ? undefined : { shop_id: Number(shop) };
    },
    loadExistingGrant: (ctx) => grantToUse(ctx, options),
    issueRefreshToken: (_ctx, client) => client.grantTypeAllowed('refresh_token'),
    rotateRefreshToken: true,
    expiresWithSession: () => false,
    renderError,
    features: featuresOf(options),
    ttl: {
      AccessToken: PARTNER_TOKEN_TTL_S,
      AuthorizationCode: 60,
      RefreshToken: REFRESH_DAYS * DAY_S,
      Interaction: INTERACTION_TTL_S,
      Grant: GRANT_DAYS * DAY_S,
      Session: DAY_S,
      IdToken: 3600,
    },
  };
  return withoutMemoryWarning(() => new Provider(options.issuer, settings));
}

/** The shop that a token is for; undefined for tokens of our own sign-in. */
function shopOf({ shops }: ProviderOptions, token: object | undefined): bigint | undefined {
  const grantId = token && 'grantId' in token ? token.grantId : undefined;
  return typeof grantId === 'string' ? shops.find(grantId) : undefined;
}

/** Whether a token may be exchanged for another one: its person must still be allowed to connect apps to its shop. */
async function mayStillConnect(
  options: ProviderOptions,
  account: Account,
  token: object | undefined,
): Promise<boolean> {
  const shopId = shopOf(options, token);
  if (shopId === undefined) return true;
  const shops = await options.directory(account);
  return shops.some((shop) => shop.shopId === shopId && shop.mayConnect);
}

/** The app that gets partners' tokens under this client id; undefined for the sign-in of this service. */
export function appOf(
  { partner, reference }: IdentityOptions,
  clientId: string,
): { readonly name: string } | undefined {
  return [partner, reference].find((one) => one?.clientId === clientId);
}

/** Whether a script of this origin may call the token endpoint for this client: only the page of the API reference. */
function isReferenceAt({ reference }: IdentityOptions, origin: string, clientId: string): boolean {
  return (
    reference !== undefined &&
    clientId === reference.clientId &&
    origin === new URL(reference.redirectUri).origin
  );
}

/** A partner's app needs consent for each authorization, because each may be for another shop. */
function grantToUse(ctx: KoaContextWithOIDC, options: ProviderOptions) {
  const { client, result, session, provider } = ctx.oidc;
  const clientId = client?.clientId ?? '';
  const known = appOf(options, clientId) ? undefined : session?.grantIdFor(clientId);
  const grantId = result?.consent?.grantId ?? known;
  return grantId === undefined ? undefined : provider.Grant.find(grantId);
}

function claimsOf({ id, email, emailVerified = true, name }: Account) {
  return { sub: id, email, email_verified: emailVerified, name };
}

/** Only partners' access tokens are JWTs for the gateway. */
function featuresOf(options: IdentityOptions): Configuration['features'] {
  const { resource } = options;
  return {
    devInteractions: { enabled: false },
    dPoP: { enabled: false },
    pushedAuthorizationRequests: { enabled: false },
    // Its page would need a script.
    rpInitiatedLogout: { enabled: false },
    revocation: {
      enabled: true,
      allowedPolicy: (_ctx, client, token) => token.clientId === client.clientId,
    },
    resourceIndicators: {
      enabled: true,
      defaultResource: (_ctx, client) => (appOf(options, client.clientId) ? resource : []),
      useGrantedResource: () => true,
      getResourceServerInfo: (_ctx, indicator) => {
        if (indicator !== resource) throw new errors.InvalidTarget();
        return {
          scope: PARTNER_SCOPES.join(' '),
          audience: resource,
          accessTokenFormat: 'jwt',
          accessTokenTTL: PARTNER_TOKEN_TTL_S,
          jwt: { sign: { alg: 'RS256' } },
        };
      },
    },
  };
}

function clientsOf({ partner, reference, signIn }: IdentityOptions): ClientMetadata[] {
  const app: ClientMetadata = {
    client_id: partner.clientId,
    client_secret: partner.clientSecret,
    redirect_uris: [partner.redirectUri],
    grant_types: ['authorization_code', 'refresh_token'],
    response_types: ['code'],
    token_endpoint_auth_method: 'client_secret_post',
  };
  const publicApps: ClientMetadata[] = reference
    ? [
        {
          client_id: reference.clientId,
          redirect_uris: [reference.redirectUri],
          grant_types: ['authorization_code'],
          response_types: ['code'],
          token_endpoint_auth_method: 'none',
        },
      ]
    : [];
  if (!signIn) return [app, ...publicApps];
  const own: ClientMetadata = {
    client_id: signIn.clientId,
    client_secret: signIn.clientSecret,
    redirect_uris: [...signIn.redirectUris],
    grant_types: ['authorization_code'],
    response_types: ['code'],
    scope: 'openid email profile',
  };
  return [app, ...publicApps, own];
}

/**
 * Shows the sign-in form when the signed-in user is another one than the `login_hint`. After the form was sent, it is
 * not shown again, even for another user, because this would be an endless loop; the app checks the result.
 */
function policyFor(accounts: readonly Account[]) {
  const policy = interactionPolicy.base();
  const isOther = new interactionPolicy.Check(
    'other_account',
    'another user is signed in',
    (ctx) => {
      const { params, session, result } = ctx.oidc;
      if (result?.login) return false;
      const known = accounts.find(({ id }) => id === session?.accountId);
      const hint = params?.login_hint;
      return known !== undefined && typeof hint === 'string' && known.email !== normalEmail(hint);
    },
  );
  policy.get('login')?.checks.add(isOther);
  return policy;
}

/** Hides the library's warning about its in-memory storage, which is intended here. Other warnings are shown. */
function withoutMemoryWarning<T>(make: () => T): T {
  const { warn } = console;
  console.warn = (...words: unknown[]) => {
    if (!String(words[0]).includes('in-memory adapter')) warn(...words);
  };
  try {
    return make();
  } finally {
    console.warn = warn;
  }
}
