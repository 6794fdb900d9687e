import Provider, { type Configuration, interactionPolicy, type JWK } from 'oidc-provider';
import { type Account, normalEmail } from './accounts.ts';
import { renderError } from './pages.ts';

/** Options of the bundled identity provider. */
export interface IdentityOptions {
  readonly issuer: string;
  /** Its only client: the gateway, which needs the identity of its users. */
  readonly signIn: {
    readonly clientId: string;
    readonly clientSecret: string;
    /** The callbacks of the gateway: of its authorization servers, and of the portal. */
    readonly redirectUris: readonly string[];
  };
  readonly accounts: readonly Account[];
  /** Private RS256 key; its public half is at `/jwks`. */
  readonly signingKey: JWK;
  readonly cookieSecret: string;
}

const DAY_S = 86_400;

/** A person must complete the pages in this time. Seconds. */
const INTERACTION_TTL_S = 600;

/** An OpenID provider for local runs: the sign-in of this service's own users. It returns an ID token with the user. */
export function createProvider(options: IdentityOptions): Provider {
  const { clientId, clientSecret, redirectUris } = options.signIn;
  const settings: Configuration = {
    clients: [
      {
        client_id: clientId,
        client_secret: clientSecret,
        redirect_uris: [...redirectUris],
        grant_types: ['authorization_code'],
        response_types: ['code'],
        scope: 'openid email profile',
      },
    ],
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
    findAccount: (_ctx, id) => {
      const account = options.accounts.find((one) => one.id === id);
      return account && { accountId: id, claims: () => claimsOf(account) };
    },
    renderError,
    features: {
      devInteractions: { enabled: false },
      dPoP: { enabled: false },
      pushedAuthorizationRequests: { enabled: false },
      // Its page would need a script.
      rpInitiatedLogout: { enabled: false },
    },
    ttl: {
      AccessToken: 3600,
      AuthorizationCode: 60,
      Interaction: INTERACTION_TTL_S,
      Grant: DAY_S,
      Session: DAY_S,
      IdToken: 3600,
    },
  };
  return withoutMemoryWarning(() => new Provider(options.issuer, settings));
}

function claimsOf({ id, email, emailVerified = true, name }: Account) {
  return { sub: id, email, email_verified: emailVerified, name };
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
