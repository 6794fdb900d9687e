import * as oidc from 'openid-client';
import { isOutage } from '../../services/platform/outage.ts';
import { boundedFetch } from '../auth/bounded-fetch.ts';
import { parseEmail } from '../tenancy/users.ts';

/** The identity provider that people sign in at. */
export interface SignInProvider {
  readonly issuer: string;
  readonly clientId: string;
  readonly clientSecret: string;
  /** Authentication context classes of which a sign-in must have one; any will do when absent or empty. */
  readonly requiredAcr?: readonly string[];
}

/** What a sign-in at the identity provider must come back with; kept until then. */
export interface Expectation {
  readonly state: string;
  readonly nonce: string;
  readonly codeVerifier: string;
  /**
   * The earliest time of authentication that counts, in seconds since 1970; absent where an older one will do.
   */
  readonly authenticatedSince?: number | undefined;
}

/** What a person is to be asked there. */
export interface Demands {
  /** Such as `login`, whatever they were asked before. */
  readonly prompts?: readonly string[];
  /** How long ago they may have signed in there. Seconds. */
  readonly maxAgeS?: number | undefined;
}

/** Who the identity provider says somebody is. */
export interface Identity {
  /** `iss` and `sub`: what identifies the person. */
  readonly issuer: string;
  readonly subject: string;
  readonly email: string | undefined;
  readonly emailVerified: boolean;
}

export interface Upstream {
  /** Origin of its sign-in page. @throws IdentityProviderAway */
  origin(): Promise<string>;
  /**
   * The address to send a browser to, and what to expect of it.
   *
   * @throws IdentityProviderAway
   */
  begin(
    email: string,
    demands?: Demands,
  ): Promise<{ readonly url: string; readonly expectation: Expectation }>;
  /**
   * Reads the address that the browser came back with, exchanges the code in it, and checks all that
   * was expected.
   *
   * @throws IdentityProviderAway; {@link SignInRefused} for an answer that proves nothing, or a refusal.
   */
  finish(url: URL, expectation: Expectation): Promise<Identity>;
}

/**
 * Whether the identity is that of the address, which is as `parseEmail` answers it. Another spelling that
 * is only composed into it (a Kelvin sign for a K) may be another account there, of somebody else.
 */
export function proves(
  { email, emailVerified }: Pick<Identity, 'email' | 'emailVerified'>,
  asked: string,
): boolean {
  if (!emailVerified || email === undefined) return false;
  return email.normalize('NFC') === email && parseEmail(email) === asked;
}

/** The identity provider does not answer, or answers that it cannot. */
export class IdentityProviderAway extends Error {
  override readonly name = 'IdentityProviderAway';
}

/** The sign-in came to nothing. */
export class SignInRefused extends Error {
  override readonly name = 'SignInRefused';
  /** The person, or the identity provider, said no; anything else is an answer that does not fit. */
  readonly isDenied: boolean;
  /** It did not understand what was asked of it, such as a prompt that it does not know. */
  readonly isNotUnderstood: boolean;
  /** The person did sign in, but not as recently, or not in the way, that was asked for. */
  readonly isTooWeak: boolean;
  /** Names of what happened, for the log: nothing of what was sent. */
  readonly reason: string;

  constructor(cause: unknown) {
    super('the sign-in at the identity provider came to nothing', { cause });
    this.isDenied = cause instanceof oidc.AuthorizationResponseError;
    this.isNotUnderstood =
      cause instanceof oidc.AuthorizationResponseError && cause.error === 'invalid_request';
    this.isTooWeak = cause instanceof WeakAuthentication;
    this.reason = namesOf(cause);
  }
}

/** Somebody signed in, and not as was asked for. */
class WeakAuthentication extends Error {
  override readonly name = 'WeakAuthentication';
  /** The claim that says so. */
  readonly code: 'auth_time' | 'acr';

  constructor(code: 'auth_time' | 'acr') {
    super(`the ${code} of the id token is not what was asked for`);
    this.code = code;
  }
}

/** How far the clock of the identity provider may be behind ours. Seconds. */
const CLOCK_SKEW_S = 60;

/** A person is waiting. Seconds. */
const TIMEOUT_S = 5;

/** Speaks to the identity provider as a confidential client with PKCE; discovery happens at first use. */
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
      // The time of authentication is promised only where `max_age` is asked for (OpenID Connect Core, 2).
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
        throw isAway(error) ? away(error) : new SignInRefused(error);
      }
    },
  };
}

async function discover(o: SignInProvider): Promise<oidc.Configuration> {
  const issuer = new URL(o.issuer);
  // An identity provider without TLS is one on the same machine; configuration allows no other.
  const isLocal = issuer.protocol === 'http:';
  const execute = [
    // Without it the signature of an ID token that comes by the back channel is not looked at.
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
    // Asked for again at the next sign-in: what is of no use must not be remembered.
    if ([authorization_endpoint, token_endpoint, jwks_uri].every(isWebAddress)) return found;
  } catch (error) {
    throw away(error);
  }
  throw away(new Error('its metadata names no endpoints that can be used'));
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
  // Some providers say the address only when asked for it.
  const source =
    typeof claims.email === 'string' || config.serverMetadata().userinfo_endpoint === undefined
      ? claims
      : await oidc.fetchUserInfo(config, tokens.access_token, claims.sub);
  return {
    issuer: claims.iss,
    subject: claims.sub,
    email: typeof source.email === 'string' ? source.email : undefined,
    // Some providers write it as text.
    emailVerified: String(source.email_verified) === 'true',
  };
}

function away(cause: unknown): IdentityProviderAway {
  return new IdentityProviderAway('the identity provider does not answer', { cause });
}

/** How deep a failure's causes are looked at. */
const MAX_CAUSES = 5;

/** No answer at all, one too late or too large, or a server error; said by the failure itself or by what caused it. */
function isAway(error: unknown): boolean {
  let cause: unknown = error;
  for (
    let depth = 0;
    depth < MAX_CAUSES && typeof cause === 'object' && cause !== null;
    depth += 1
  ) {
    if (isOutage(cause) || saysAway(cause)) return true;
    cause = 'cause' in cause ? cause.cause : undefined;
  }
  return false;
}

/** Answers that came too late, or without an end. */
const UNUSABLE: ReadonlySet<string> = new Set(['TimeoutError', 'AnswerTooLarge']);

/** By shape, not class: the runtime's errors and answers may come from another realm. */
function saysAway(error: object): boolean {
  if ('status' in error && typeof error.status === 'number') return error.status >= 500;
  const isUnusable = 'name' in error && UNUSABLE.has(String(error.name));
  return isUnusable || ('message' in error && error.message === 'fetch failed');
}

/** Words of a protocol; longer ones, or others, may be what was sent. */
const NAME = /^[\w.-]{1,60}$/;

/** Such as `ResponseBodyError OAUTH_RESPONSE_BODY_ERROR invalid_client 401`. */
function namesOf(error: unknown): string {
  if (typeof error !== 'object' || error === null) return '';
  return ['name', 'code', 'error', 'status']
    .map((part) => String(Reflect.get(error, part) ?? ''))
    .filter((text) => NAME.test(text))
    .join(' ');
}
