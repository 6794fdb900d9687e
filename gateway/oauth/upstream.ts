import * as oidc from 'openid-client';
import { isOutage } from '../../services/platform/outage.ts';
import { boundedFetch } from '../auth/bounded-fetch.ts';
import { parseEmail } from '../tenancy/users.ts';

/** The identity provider where people sign in. */
export interface SignInProvider {
  readonly issuer: string;
  readonly clientId: string;
  readonly clientSecret: string;
  /** A sign-in must have one of these authentication context classes. Not checked when absent or empty. */
  readonly requiredAcr?: readonly string[];
}

/** The values that the response of the identity provider is checked against; stored until it arrives. */
export interface Expectation {
  readonly state: string;
  readonly nonce: string;
  readonly codeVerifier: string;
  /**
   * The earliest accepted time of authentication, in seconds since 1970. Absent when any time is accepted.
   */
  readonly authenticatedSince?: number | undefined;
}

/** Requirements that are sent to the identity provider. */
export interface Demands {
  /** `prompt` values, such as `login`. */
  readonly prompts?: readonly string[];
  /** Maximum age of the person's sign-in there. Seconds. */
  readonly maxAgeS?: number | undefined;
}

/** The person that the identity provider authenticated. */
export interface Identity {
  /** `iss` and `sub` identify the person. */
  readonly issuer: string;
  readonly subject: string;
  readonly email: string | undefined;
  readonly emailVerified: boolean;
}

export interface Upstream {
  /** Origin of its sign-in page. @throws IdentityProviderUnavailable */
  origin(): Promise<string>;
  /**
   * Returns the URL to redirect the browser to, and the expected values of the response.
   *
   * @throws IdentityProviderUnavailable
   */
  begin(
    email: string,
    demands?: Demands,
  ): Promise<{ readonly url: string; readonly expectation: Expectation }>;
  /**
   * Checks the URL that the identity provider redirected to, exchanges its code, and checks the tokens.
   *
   * @throws IdentityProviderUnavailable; {@link SignInRefused} for an invalid response or a refusal.
   */
  finish(url: URL, expectation: Expectation): Promise<Identity>;
}

/**
 * Whether the identity has the given e-mail address, confirmed.
 *
 * An address that is not in Unicode form NFC is rejected: normalizing could turn it into the address of somebody
 * else (a Kelvin sign becomes a K).
 *
 * @param asked in the form that `parseEmail` returns.
 */
export function proves(
  { email, emailVerified }: Pick<Identity, 'email' | 'emailVerified'>,
  asked: string,
): boolean {
  if (!emailVerified || email === undefined) return false;
  return email.normalize('NFC') === email && parseEmail(email) === asked;
}

/** The identity provider does not answer, or answers with a server error. */
export class IdentityProviderUnavailable extends Error {
  override readonly name = 'IdentityProviderUnavailable';
}

/** The sign-in at the identity provider failed. */
export class SignInRefused extends Error {
  override readonly name = 'SignInRefused';
  /** The identity provider or the person denied it; false for an invalid response. */
  readonly isDenied: boolean;
  /** The identity provider did not understand the request, for example a prompt that it does not support. */
  readonly isNotUnderstood: boolean;
  /** The person signed in, but not recently enough or not with a required method. */
  readonly isTooWeak: boolean;
  /** Error names and codes for the log; contains no caller data. */
  readonly reason: string;

  constructor(cause: unknown) {
    super('the sign-in at the identity provider failed', { cause });
    this.isDenied = cause instanceof oidc.AuthorizationResponseError;
    this.isNotUnderstood =
      cause instanceof oidc.AuthorizationResponseError && cause.error === 'invalid_request';
    this.isTooWeak = cause instanceof WeakAuthentication;
    this.reason = namesOf(cause);
  }
}

/** The sign-in is too old, or has none of the required authentication context classes. */
class WeakAuthentication extends Error {
  override readonly name = 'WeakAuthentication';
  /** The claim that does not meet the requirement. */
  readonly code: 'auth_time' | 'acr';

  constructor(code: 'auth_time' | 'acr') {
    super(`the ${code} of the id token is not what was asked for`);
    this.code = code;
  }
}

/** The identity provider's clock may be this far behind ours. Seconds. */
const CLOCK_SKEW_S = 60;

/** Timeout of requests to the identity provider; short because a person is waiting. Seconds. */
const TIMEOUT_S = 5;

/** Creates the client of the identity provider: confidential, with PKCE. Discovery happens at first use. */
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

  return {
    async origin() {
      const { authorization_endpoint: endpoint } = (await configuration()).serverMetadata();
      return new URL(endpoint ?? o.issuer).origin;
    },
    async begin(email, { prompts = [], maxAgeS: asked } = {}) {
      const config = await configuration();
      // `auth_time` is guaranteed only when `max_age` is requested (OpenID Connect Core, 2).
      const maxAgeS = prompts.includes('login') ? 0 : asked;
      const expectation = {
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
        state: expectation.state,
        nonce: expectation.nonce,
        code_challenge: await oidc.calculatePKCECodeChallenge(expectation.codeVerifier),
        code_challenge_method: 'S256',
        login_hint: email,
        ...(prompts.length > 0 && { prompt: prompts.join(' ') }),
        ...(maxAgeS !== undefined && { max_age: String(maxAgeS) }),
        ...(acrs.length > 0 && { acr_values: acrs.join(' ') }),
      });
      return { url: url.href, expectation };
    },
    async finish(url, expectation) {
      const config = await configuration();
      try {
        return await identify(config, url, { ...expectation, acrs });
      } catch (error) {
        throw isUnavailable(error) ? providerUnavailable(error) : new SignInRefused(error);
      }
    },
  };
}

async function discover(o: SignInProvider): Promise<oidc.Configuration> {
  const issuer = new URL(o.issuer);
  // http is for an identity provider in development; in production the configuration rejects it.
  const isLocal = issuer.protocol === 'http:';
  const execute = [
    // Without it, the signature of an ID token from the token endpoint is not checked.
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
    // Unusable metadata is not cached, so the next sign-in requests it again.
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
  expectation: Expectation & { readonly acrs: readonly string[] },
): Promise<Identity> {
  const tokens = await oidc.authorizationCodeGrant(config, url, {
    expectedState: expectation.state,
    expectedNonce: expectation.nonce,
    pkceCodeVerifier: expectation.codeVerifier,
    idTokenExpected: true,
  });
  const claims = tokens.claims();
  if (!claims) throw new Error('an id token was expected');
  const { authenticatedSince: since, acrs } = expectation;
  if (since !== undefined && !(Number(claims.auth_time) >= since)) {
    throw new WeakAuthentication('auth_time');
  }
  if (acrs.length > 0 && !acrs.some((acr) => acr === claims.acr))
    throw new WeakAuthentication('acr');
  // Some providers return the e-mail address only from the userinfo endpoint.
  const source =
    typeof claims.email === 'string' || config.serverMetadata().userinfo_endpoint === undefined
      ? claims
      : await oidc.fetchUserInfo(config, tokens.access_token, claims.sub);
  return {
    issuer: claims.iss,
    subject: claims.sub,
    email: typeof source.email === 'string' ? source.email : undefined,
    // Some providers send a string instead of a boolean.
    emailVerified: String(source.email_verified) === 'true',
  };
}

function providerUnavailable(cause: unknown): IdentityProviderUnavailable {
  return new IdentityProviderUnavailable('the identity provider does not answer', { cause });
}

/** Maximum depth of the chain of causes that is checked. */
const MAX_CAUSES = 5;

/** Whether the error or one of its causes is a connection failure, a timeout, a too large response or a 5xx. */
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

/** Names of errors for responses that came too late or were too large. */
const UNUSABLE: ReadonlySet<string> = new Set(['TimeoutError', 'ResponseTooLarge']);

/** Checks properties instead of classes, because the error may come from another realm. */
function indicatesOutage(error: object): boolean {
  if ('status' in error && typeof error.status === 'number') return error.status >= 500;
  const isUnusable = 'name' in error && UNUSABLE.has(String(error.name));
  return isUnusable || ('message' in error && error.message === 'fetch failed');
}

/** Names and codes are logged only if they match. Longer texts or other characters may contain caller data. */
const NAME = /^[\w.-]{1,60}$/;

/** Such as `ResponseBodyError OAUTH_RESPONSE_BODY_ERROR invalid_client 401`. */
function namesOf(error: unknown): string {
  if (typeof error !== 'object' || error === null) return '';
  return ['name', 'code', 'error', 'status']
    .map((part) => String(Reflect.get(error, part) ?? ''))
    .filter((text) => NAME.test(text))
    .join(' ');
}
