import { randomBytes } from 'node:crypto';
import type { IncomingMessage } from 'node:http';

/** The cookies of a sign-in. Their names and attributes depend on whether the public address is https. */
export interface Cookies {
  /** Names of oidc-provider's cookies. */
  readonly names: {
    readonly session: string;
    readonly interaction: string;
    readonly resume: string;
  };
  readonly options: { readonly httpOnly: true; readonly sameSite: 'lax'; readonly secure: boolean };
  /** The id of this browser from its cookie, or a new id when the cookie is missing. */
  browserOf(req: IncomingMessage): string;
  /** The id of this browser from its cookie; undefined when the cookie is missing. */
  knownBrowserOf(req: IncomingMessage): string | undefined;
  /** The value of a `Set-Cookie` header that stores a browser id. */
  browserCookie(value: string): string;
  /** The id of the sign-in that this browser started. */
  interactionOf(req: IncomingMessage): string | undefined;
  /** The id of the sign-in whose authorization code this browser may request. */
  resumeOf(req: IncomingMessage): string | undefined;
}

const VALUE = /^[A-Za-z0-9_-]{43}$/;

/** @param ttlS maximum duration of a sign-in. Seconds. */
export function createCookies(issuer: string, ttlS: number): Cookies {
  const secure = issuer.startsWith('https:');
  // Browsers reject a cookie with one of these prefixes when another host or a plain http page sets it (RFC 6265bis).
  const browserName = secure ? '__Host-rms_browser' : 'rms_browser';
  const prefix = secure ? '__Secure-' : '';
  const names = {
    session: `${prefix}rms_session`,
    interaction: `${prefix}rms_sign_in`,
    resume: `${prefix}rms_resume`,
  };
  const knownBrowserOf = (req: IncomingMessage): string | undefined => {
    const value = cookieOf(req, browserName);
    return value !== undefined && VALUE.test(value) ? value : undefined;
  };
  return {
    names,
    options: { httpOnly: true, sameSite: 'lax', secure },
    browserOf: (req) => knownBrowserOf(req) ?? randomBytes(32).toString('base64url'),
    knownBrowserOf,
    browserCookie: (value) =>
      `${browserName}=${value}; Path=/; Max-Age=${ttlS}; HttpOnly; SameSite=Lax${secure ? '; Secure' : ''}`,
    interactionOf: (req) => cookieOf(req, names.interaction),
    resumeOf: (req) => cookieOf(req, names.resume),
  };
}

/** The value of a cookie; undefined when the cookie is absent or present more than once. */
export function cookieOf(req: IncomingMessage, name: string): string | undefined {
  const values = (req.headers.cookie ?? '')
    .split(';')
    .map((pair) => pair.trim())
    .filter((pair) => pair.startsWith(`${name}=`))
    .map((pair) => pair.slice(name.length + 1));
  return values.length === 1 ? values[0] : undefined;
}
