import * as oidc from 'openid-client';
import { isOutage } from '../../services/platform/outage.ts';
import { boundedFetch } from '../auth/bounded-fetch.ts';
import { parseEmail } from '../tenancy/users.ts';

/** The identity provider that people sign in at. */
export interface SignInProvider {
  readonly issuer: string;
  readonly clientId: string;
  readonly clientSecret: string;
}

/** What a sign-in at the identity provider must come back with; kept until then. */
export interface Expectation {
  readonly state: string;
  readonly nonce: string;
  readonly codeVerifier: string;
}

/** Who the identity provider says somebody is. */
export interface Identity {
  readonly email: string | undefined;
  readonly emailVerified: boolean;
}

export interface Upstream {
  /** Origin of its sign-in page. @throws IdentityProviderAway */
  origin(): Promise<string>;
  /**
   * The address to send a browser to, and what to expect of it.
   *
   * @param prompts what a person is to be asked there, whatever they were asked before.
   * @throws IdentityProviderAway
   */
  begin(
    email: string,
    prompts?: readonly string[],
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
export function proves({ email, emailVerified }: Identity, asked: string): boolean {
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
  /** Names of what happened, for the log: nothing of what was sent. */
  readonly reason: string;

  constructor(cause: unknown) {
    super('the sign-in at the identity provider came to nothing', { cause });
    this.isDenied = cause instanceof oidc.AuthorizationResponseError;
    this.isNotUnderstood =
      cause instanceof oidc.AuthorizationResponseError && cause.error === 'invalid_request';
    this.reason = namesOf(cause);
  }
}

/** A person is waiting. Seconds. */
const TIMEOUT_S = 5;

/** Speaks to the identity provider as a confidential client with PKCE; discovery happens at first use. */
export function createUpstream(o: SignInProvider & { readonly redirectUri: string }): Upstream {
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
    async begin(email, prompts = []) {
      const config = await configuration();
      const expectation = {
        state: oidc.randomState(),
        nonce: oidc.randomNonce(),
        codeVerifier: oidc.randomPKCECodeVerifier(),
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
      });
      return { url: url.href, expectation };
    },
    async finish(url, expectation) {
      const config = await configuration();
      try {
        return await identify(config, url, expectation);
      } catch (error) {
        throw isAway(error) ? away(error) : new SignInRefused(error);
      }
    },
  };
}

async function discover(o: SignInProvider): Promise<oidc.Configuration> {
  const issuer = new URL(o.issuer);
  // An identity provider without TLS is one on the same machine; configuration allows no other.
  const execute = issuer.protocol === 'http:' ? [oidc.allowInsecureRequests] : [];
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
  expectation: Expectation,
): Promise<Identity> {
  const tokens = await oidc.authorizationCodeGrant(config, url, {
    expectedState: expectation.state,
    expectedNonce: expectation.nonce,
    pkceCodeVerifier: expectation.codeVerifier,
    idTokenExpected: true,
  });
  const claims = tokens.claims();
  if (!claims) throw new Error('an id token was expected');
  // Some providers say the address only when asked for it.
  const source =
    typeof claims.email === 'string' || config.serverMetadata().userinfo_endpoint === undefined
      ? claims
      : await oidc.fetchUserInfo(config, tokens.access_token, claims.sub);
  return {
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
