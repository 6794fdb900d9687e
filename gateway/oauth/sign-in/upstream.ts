import { createRemoteJWKSet, customFetch, errors, type JWTVerifyGetKey, jwtVerify } from 'jose';
import * as oidc from 'openid-client';
import { isOutage } from '../../../services/platform/postgres/outage.ts';
import { boundedFetch } from '../../auth/bounded-fetch.ts';
import { parseEmail } from '../../tenancy/users.ts';

/** The identity provider where users sign in. */
export interface SignInProvider {
  readonly issuer: string;
  readonly clientId: string;
  readonly clientSecret: string;
  /** Authentication context classes. A sign-in must have one of them. Not checked when absent or empty. */
  readonly requiredAcr?: readonly string[];
}

/** The values that the response of the identity provider must match. They are stored until the response arrives. */
export interface ExpectedResponse {
  readonly state: string;
  readonly nonce: string;
  readonly codeVerifier: string;
  /** The earliest time of authentication that is accepted; any time when absent. Seconds since 1970. */
  readonly authenticatedSince?: number | undefined;
}

/** The requirements for one sign-in at the identity provider. */
export interface SignInRequirements {
  /** `prompt` values, such as `login`. */
  readonly prompts?: readonly string[];
  /** Maximum age of the user's sign-in at the identity provider. Seconds. */
  readonly maxAgeS?: number | undefined;
}

/** The user whom the identity provider authenticated. */
export interface Identity {
  /** `issuer` and `subject` together identify the user. */
  readonly issuer: string;
  readonly subject: string;
  readonly email: string | undefined;
  readonly emailVerified: boolean;
}

export interface Upstream {
  /** Origin of the identity provider's sign-in page. @throws IdentityProviderUnavailable */
  origin(): Promise<string>;
  /**
   * Returns the URL to which the browser is redirected, and the expected values of the response.
   *
   * @param email the address that the identity provider's page should show; none when undefined.
   * @throws IdentityProviderUnavailable
   */
  begin(
    email: string | undefined,
    requirements?: SignInRequirements,
  ): Promise<{ readonly url: string; readonly expected: ExpectedResponse }>;
  /**
   * Checks the callback URL, exchanges its code for tokens, and checks the tokens.
   *
   * @throws IdentityProviderUnavailable; {@link SignInFailed} for an invalid response or a denial.
   */
  finish(url: URL, expected: ExpectedResponse): Promise<Identity>;
  /**
   * Checks a logout token, and returns the account that signed out at the identity provider, and when (OpenID Connect
   * Back-Channel Logout 1.0, 2.6).
   *
   * @throws IdentityProviderUnavailable; {@link SignInFailed} for an invalid token.
   */
  signedOut(token: string): Promise<Pick<Identity, 'issuer' | 'subject'> & { readonly at: Date }>;
}

/**
 * Whether the identity provider confirms that the user has this e-mail address.
 *
 * An address that is not in the Unicode form NFC is rejected. Normalization could convert it to the address of somebody
 * else, for example a Kelvin sign to a K.
 *
 * @param expected in the form that `parseEmail` returns.
 */
export function confirmsEmail(
  { email, emailVerified }: Pick<Identity, 'email' | 'emailVerified'>,
  expected: string,
): boolean {
  if (!emailVerified || email === undefined) return false;
  return email.normalize('NFC') === email && parseEmail(email) === expected;
}

/** The identity provider does not respond, or responds with a server error. */
export class IdentityProviderUnavailable extends Error {
  override readonly name = 'IdentityProviderUnavailable';
}

/** The error codes of an identity provider that has an error of its own (RFC 6749, 4.1.2.1). */
const PROVIDER_ERRORS: readonly string[] = ['server_error', 'temporarily_unavailable'];

/** The sign-in at the identity provider failed. */
export class SignInFailed extends Error {
  override readonly name = 'SignInFailed';
  /** The identity provider returned another OAuth error, for example because the user cancelled. */
  readonly isDenied: boolean;
  /** The identity provider says that it cannot answer at the moment. */
  readonly isProviderError: boolean;
  /** The error is `invalid_request`, for example because the provider does not support a prompt. */
  readonly isInvalidRequest: boolean;
  /** The user signed in, but not recently enough, or with none of the required methods. */
  readonly isTooWeak: boolean;
  /** Names and codes of errors for the log. They contain no data of the caller. */
  readonly reason: string;

  constructor(cause: unknown) {
    super('the sign-in at the identity provider failed', { cause });
    const code = cause instanceof oidc.AuthorizationResponseError ? cause.error : undefined;
    this.isProviderError = code !== undefined && PROVIDER_ERRORS.includes(code);
    this.isDenied = code !== undefined && !this.isProviderError;
    this.isInvalidRequest = code === 'invalid_request';
    this.isTooWeak = cause instanceof WeakAuthentication;
    this.reason = errorNames(cause);
  }
}

/** The user signed in too long ago, or with none of the required authentication context classes. */
class WeakAuthentication extends Error {
  override readonly name = 'WeakAuthentication';
  /** The claim that does not meet its requirement. */
  readonly code: 'auth_time' | 'acr';

  constructor(code: 'auth_time' | 'acr') {
    super(`the ${code} of the id token does not meet the requirement`);
    this.code = code;
  }
}

/** Maximum time by which the identity provider's clock may be behind ours. Seconds. */
const CLOCK_SKEW_S = 60;

/** Timeout of requests to the identity provider. It is short, because a user is waiting. Seconds. */
const TIMEOUT_S = 5;

/**
 * Creates the client of the identity provider: a confidential client, with PKCE. It reads the provider's metadata at
 * its first use.
 */
export function createUpstream(o: SignInProvider & { readonly redirectUri: string }): Upstream {
  const acrs = o.requiredAcr ?? [];
  let discovered: Promise<oidc.Configuration> | undefined;
  const configuration = (): Promise<oidc.Configuration> => {
    discovered ??= discover(o).catch((error: unknown) => {
      discovered = undefined;
      throw error;
    });
    return discovered;
  };

  let keys: JWTVerifyGetKey | undefined;
  return {
    async origin() {
      const { authorization_endpoint: endpoint } = (await configuration()).serverMetadata();
      return new URL(endpoint ?? o.issuer).origin;
    },
    async begin(email, { prompts = [], maxAgeS: requested } = {}) {
      const config = await configuration();
      // An id token must have `auth_time` only when `max_age` was requested (OpenID Connect Core, 2).
      const maxAgeS = prompts.includes('login') ? 0 : requested;
      const expected = {
        state: oidc.randomState(),
        nonce: oidc.randomNonce(),
        codeVerifier: oidc.randomPKCECodeVerifier(),
        ...(maxAgeS !== undefined && {
          authenticatedSince: Math.floor(Date.now() / 1_000) - maxAgeS - CLOCK_SKEW_S,
        }),
      };
      const url = oidc.buildAuthorizationUrl(config, {
        redirect_uri: o.redirectUri,
        scope: 'openid email profile',
        state: expected.state,
        nonce: expected.nonce,
        code_challenge: await oidc.calculatePKCECodeChallenge(expected.codeVerifier),
        code_challenge_method: 'S256',
        ...(email !== undefined && { login_hint: email }),
        ...(prompts.length > 0 && { prompt: prompts.join(' ') }),
        ...(maxAgeS !== undefined && { max_age: String(maxAgeS) }),
        ...(acrs.length > 0 && { acr_values: acrs.join(' ') }),
      });
      return { url: url.href, expected };
    },
    async finish(url, expected) {
      const config = await configuration();
      try {
        return await identify(config, url, { ...expected, acrs });
      } catch (error) {
        throw isUnavailable(error) ? providerUnavailable(error) : new SignInFailed(error);
      }
    },
    async signedOut(token) {
      const { issuer, jwks_uri = '' } = (await configuration()).serverMetadata();
      keys ??= createRemoteJWKSet(new URL(jwks_uri), {
        timeoutDuration: TIMEOUT_S * 1_000,
        [customFetch]: async (url, init) => {
          const response = await boundedFetch(url, init);
          const { status } = response;
          if (status >= 500) throw Object.assign(new Error('no keys'), { status });
          return response;
        },
      });
      try {
        const { payload } = await jwtVerify(token, keys, {
          ...{ issuer, audience: o.clientId, algorithms: LOGOUT_ALGORITHMS },
          requiredClaims: ['sub', 'jti'],
          maxTokenAge: LOGOUT_MAX_AGE_S,
          clockTolerance: CLOCK_SKEW_S,
        });
        const { sub: subject = '', iat = 0, events, nonce } = payload;
        // An ID token has the same signature and audience.
        if (!isLogout(events) || nonce !== undefined) throw new Error('it is no logout token');
        return { issuer, subject, at: new Date(iat * 1_000) };
      } catch (error) {
        // After a change of keys, the new ones are read only after a pause. The provider repeats the call.
        const isUnknownKey = error instanceof errors.JWKSNoMatchingKey;
        throw isUnknownKey || isUnavailable(error)
          ? providerUnavailable(error)
          : new SignInFailed(error);
      }
    },
  };
}

/** Algorithms with a public key. */
const LOGOUT_ALGORITHMS = ['256', '384', '512']
  .flatMap((bits) => [`RS${bits}`, `PS${bits}`, `ES${bits}`])
  .concat('EdDSA', 'Ed25519');
const LOGOUT_MAX_AGE_S = 120;

function isLogout(events: unknown): boolean {
  const event = 'http://schemas.openid.net/event/backchannel-logout';
  if (typeof events !== 'object' || events === null) return false;
  const value: unknown = Reflect.get(events, event);
  return typeof value === 'object' && value !== null;
}

async function discover(o: SignInProvider): Promise<oidc.Configuration> {
  const issuer = new URL(o.issuer);
  // An http issuer is only for development. In production the configuration rejects it.
  const isLocal = issuer.protocol === 'http:';
  const execute = [
    // With this, the library checks the signature of an ID token from the token endpoint.
    oidc.enableNonRepudiationChecks,
    ...(isLocal ? [oidc.allowInsecureRequests] : []),
  ];
  try {
    const found = await oidc.discovery(issuer, o.clientId, o.clientSecret, undefined, {
      timeout: TIMEOUT_S,
      execute,
      [oidc.customFetch]: (url, { body = null, ...init }) => boundedFetch(url, { ...init, body }),
    });
    const { authorization_endpoint, token_endpoint, jwks_uri } = found.serverMetadata();
    // Do not cache unusable metadata, so that the next sign-in requests the metadata again.
    if ([authorization_endpoint, token_endpoint, jwks_uri].every(isWebAddress)) return found;
  } catch (error) {
    throw providerUnavailable(error);
  }
  throw providerUnavailable(new Error('its metadata has no usable endpoints'));
}

function isWebAddress(text: unknown): boolean {
  return typeof text === 'string' && /^https?:$/.test(URL.parse(text)?.protocol ?? '');
}

async function identify(
  config: oidc.Configuration,
  url: URL,
  expected: ExpectedResponse & { readonly acrs: readonly string[] },
): Promise<Identity> {
  const tokens = await oidc.authorizationCodeGrant(config, url, {
    expectedState: expected.state,
    expectedNonce: expected.nonce,
    pkceCodeVerifier: expected.codeVerifier,
    idTokenExpected: true,
  });
  const claims = tokens.claims();
  if (!claims) throw new Error('an id token was expected');
  const { authenticatedSince: since, acrs } = expected;
  if (since !== undefined && !(Number(claims.auth_time) >= since)) {
    throw new WeakAuthentication('auth_time');
  }
  if (acrs.length > 0 && !acrs.some((acr) => acr === claims.acr))
    throw new WeakAuthentication('acr');
  // Some providers return the e-mail address only at the userinfo endpoint.
  const source =
    typeof claims.email === 'string' || config.serverMetadata().userinfo_endpoint === undefined
      ? claims
      : await oidc.fetchUserInfo(config, tokens.access_token, claims.sub);
  return {
    issuer: claims.iss,
    subject: claims.sub,
    email: typeof source.email === 'string' ? source.email : undefined,
    // Some providers send a text instead of a boolean.
    emailVerified: String(source.email_verified) === 'true',
  };
}

function providerUnavailable(cause: unknown): IdentityProviderUnavailable {
  return new IdentityProviderUnavailable('the identity provider is unavailable', { cause });
}

/** Maximum number of causes of an error that are checked. */
const MAX_CAUSES = 5;

/**
 * Whether the error or one of its causes is a connection failure, a timeout, a response that is too large, or a 5xx.
 */
function isUnavailable(error: unknown): boolean {
  let cause: unknown = error;
  for (
    let depth = 0;
    depth < MAX_CAUSES && typeof cause === 'object' && cause !== null;
    depth += 1
  ) {
    if (isOutage(cause) || indicatesOutage(cause)) return true;
    cause = 'cause' in cause ? cause.cause : undefined;
  }
  return false;
}

/** Names of errors for responses that are too late or too large. */
const UNUSABLE: ReadonlySet<string> = new Set(['TimeoutError', 'ResponseTooLarge']);

/** Checks properties and not classes, because the error may come from another realm of the runtime. */
function indicatesOutage(error: object): boolean {
  if ('status' in error && typeof error.status === 'number') return error.status >= 500;
  const isUnusable = 'name' in error && UNUSABLE.has(String(error.name));
  return isUnusable || ('message' in error && error.message === 'fetch failed');
}

/**
 * Names and codes of this form are logged. Longer texts and other characters are not, because they may be data of the
 * caller.
 */
const NAME = /^[\w.-]{1,60}$/;

/** Names, codes and status of an error, such as `ResponseBodyError OAUTH_RESPONSE_BODY_ERROR invalid_client 401`. */
function errorNames(error: unknown): string {
  if (typeof error !== 'object' || error === null) return '';
  return ['name', 'code', 'error', 'status']
    .map((part) => String(Reflect.get(error, part) ?? ''))
    .filter((text) => NAME.test(text))
    .join(' ');
}
