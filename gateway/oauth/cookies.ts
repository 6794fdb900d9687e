import { randomBytes } from 'node:crypto';
import type { IncomingMessage } from 'node:http';

/** The cookies of a sign-in, named and marked for the public address. */
export interface Cookies {
  /** Names for the provider's own. */
  readonly names: {
    readonly session: string;
    readonly interaction: string;
    readonly resume: string;
  };
  readonly options: { readonly httpOnly: true; readonly sameSite: 'lax'; readonly secure: boolean };
  /** The value that tells this browser from others; a fresh one when it has none. */
  browserOf(req: IncomingMessage): string;
  /** As {@link browserOf}, but undefined when it has none. */
  knownBrowserOf(req: IncomingMessage): string | undefined;
  /** `Set-Cookie` that has the browser keep its value. */
  keepBrowser(value: string): string;
  /** The sign-in whose pages this browser was sent to. */
  interactionOf(req: IncomingMessage): string | undefined;
  /** The sign-in whose answer this browser may fetch. */
  resumeOf(req: IncomingMessage): string | undefined;
}

const VALUE = /^[A-Za-z0-9_-]{43}$/;

/**
 * @param ttlS how long a sign-in may take, in seconds.
 */
export function createCookies(issuer: string, ttlS: number): Cookies {
  const secure = issuer.startsWith('https:');
  // The prefixes have browsers refuse cookies that another host or plain http would set (RFC 6265bis).
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
    keepBrowser: (value) =>
      `${browserName}=${value}; Path=/; Max-Age=${ttlS}; HttpOnly; SameSite=Lax${secure ? '; Secure' : ''}`,
    interactionOf: (req) => cookieOf(req, names.interaction),
    resumeOf: (req) => cookieOf(req, names.resume),
  };
}

/** Undefined when it is absent, or there twice. */
function cookieOf(req: IncomingMessage, name: string): string | undefined {
  const values = (req.headers.cookie ?? '')
    .split(';')
    .map((pair) => pair.trim())
    .filter((pair) => pair.startsWith(`${name}=`))
    .map((pair) => pair.slice(name.length + 1));
  return values.length === 1 ? values[0] : undefined;
}
