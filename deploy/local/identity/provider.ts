import Provider, {
  type ClientMetadata,
  type Configuration,
  interactionPolicy,
  type JWK,
} from 'oidc-provider';
import { type Account, normalEmail } from './accounts.ts';

/** Options of the bundled identity provider. */
export interface IdentityOptions {
  /** `{auth_url}` of the interface: the issuer, and the base URL of `/authorize` and `/oauth/token`. */
  readonly issuer: string;
  /** `{base_url}`: the only resource that partner tokens are for. */
  readonly resource: string;
  readonly partner: {
    readonly clientId: string;
    readonly clientSecret: string;
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
  /** Private RS256 key; its public half is at `/jwks`. */
  readonly signingKey: JWK;
  readonly cookieSecret: string;
}

/** The scopes of partner tokens (interface: Authentication, REST API 2; providers of labels and gift cards are an addition). */
export const PARTNER_SCOPES = ['developer_tools', 'labels:write', 'giftcards:write'] as const;

/** Lifetime of a partner token; the gateway accepts at most one hour. Seconds. */
export const PARTNER_TOKEN_TTL_S = 3600;

/**
 * An OpenID provider for local runs: the `{auth_url}` of partner apps, and the sign-in of this
 * service's own users.
 *
 * Partners' access tokens are JWTs with the shop that was chosen during sign-in in the claim `shop_id`. The sign-in of
 * this service gets an ID token with the user, and an access token that only `/userinfo` accepts.
 *
 * @param shopOfGrant written by the sign-in pages, read when a token is created.
 */
export function createProvider(
  options: IdentityOptions,
  shopOfGrant: ReadonlyMap<string, number>,
): Provider {
  const settings: Configuration = {
    clients: clientsOf(options),
    jwks: { keys: [options.signingKey] },
    cookies: { keys: [options.cookieSecret] },
    claims: { openid: ['sub'], email: ['email', 'email_verified'], profile: ['name'] },
    routes: {
      authorization: '/authorize',
      token: '/oauth/token',
      jwks: '/jwks',
      userinfo: '/userinfo',
    },
    // As at well-known providers, the ID token contains the e-mail address, and not only the userinfo response.
    conformIdTokenClaims: false,
    interactions: {
      policy: policyFor(options.accounts),
      url: (_ctx, interaction) => `/interaction/${interaction.uid}`,
    },
    pkce: { required: () => false },
    findAccount: (_ctx, id) => {
      const account = options.accounts.find((one) => one.id === id);
      return account && { accountId: id, claims: () => claimsOf(account) };
    },
    extraTokenClaims: (_ctx, token) => {
      const shop = 'grantId' in token ? shopOfGrant.get(String(token.grantId)) : undefined;
      return shop === undefined ? undefined : { shop_id: shop };
    },
    features: featuresOf(options),
    ttl: {
      AccessToken: PARTNER_TOKEN_TTL_S,
      AuthorizationCode: 60,
      Interaction: 600,
      Grant: 86_400,
      Session: 86_400,
      IdToken: 3600,
    },
  };
  return withoutMemoryWarning(() => new Provider(options.issuer, settings));
}

function claimsOf({ id, email, emailVerified = true, name }: Account) {
  return { sub: id, email, email_verified: emailVerified, name };
}

/** Only partners' access tokens are JWTs for the gateway. */
function featuresOf({ partner, resource }: IdentityOptions): Configuration['features'] {
  return {
    devInteractions: { enabled: false },
    dPoP: { enabled: false },
    pushedAuthorizationRequests: { enabled: false },
    resourceIndicators: {
      enabled: true,
      defaultResource: (_ctx, client) => (client.clientId === partner.clientId ? resource : []),
      useGrantedResource: () => true,
      getResourceServerInfo: () => ({
        scope: PARTNER_SCOPES.join(' '),
        audience: resource,
        accessTokenFormat: 'jwt',
        accessTokenTTL: PARTNER_TOKEN_TTL_S,
        jwt: { sign: { alg: 'RS256' } },
      }),
    },
  };
}

function clientsOf({ partner, signIn }: IdentityOptions): ClientMetadata[] {
  const app: ClientMetadata = {
    client_id: partner.clientId,
    client_secret: partner.clientSecret,
    redirect_uris: [partner.redirectUri],
    grant_types: ['authorization_code', 'refresh_token'],
    response_types: ['code'],
    token_endpoint_auth_method: 'client_secret_post',
  };
  if (!signIn) return [app];
  const own: ClientMetadata = {
    client_id: signIn.clientId,
    client_secret: signIn.clientSecret,
    redirect_uris: [...signIn.redirectUris],
    grant_types: ['authorization_code'],
    response_types: ['code'],
    scope: 'openid email profile',
  };
  return [app, own];
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
