import type { IncomingMessage } from 'node:http';
import { cookieOf } from '../../oauth/sign-in/cookies.ts';

/** The cookie with the id of a session of the portal. */
export interface SessionCookie {
  /** The id; undefined when the cookie is missing, malformed or sent more than once. */
  idOf(req: IncomingMessage): string | undefined;
  /** `Set-Cookie` that stores the id until the session ends at the latest. */
  store(id: string, maxAgeS: number): string;
  /** Whether the browser had a session, which may have ended. */
  isPresent(req: IncomingMessage): boolean;
  /** `Set-Cookie` that replaces the id by a mark: this browser has signed out. */
  signedOut(): string;
}

/** 32 random bytes in base64url. */
const ID = /^[A-Za-z0-9_-]{43}$/;

/**
 * Lifetime of the cookie that says that the user signed out. A browser may stay signed in at the identity provider for
 * this time. Seconds.
 */
const SIGNED_OUT_S = 30 * 86_400;

/**
 * @param publicUrl the public address. Over https the name has the prefix `__Host-`: browsers then reject the cookie
 *   when another host, a plain http page or a page at another path sets it (RFC 6265bis, 4.1.3.2).
 */
export function createSessionCookie(publicUrl: string): SessionCookie {
  const isSecure = publicUrl.startsWith('https:');
  const name = isSecure ? '__Host-rms_portal' : 'rms_portal';
  const attributes = `Path=/; HttpOnly; SameSite=Lax${isSecure ? '; Secure' : ''}`;
  return {
    idOf(req) {
      const value = cookieOf(req, name);
      return value !== undefined && ID.test(value) ? value : undefined;
    },
    store: (id, maxAgeS) => `${name}=${id}; Max-Age=${maxAgeS}; ${attributes}`,
    isPresent: (req) => cookieOf(req, name) !== undefined,
    signedOut: () => `${name}=signed-out; Max-Age=${SIGNED_OUT_S}; ${attributes}`,
  };
}
