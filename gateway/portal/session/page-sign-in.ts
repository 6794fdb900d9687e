import type { Request } from 'express';
import type { SessionCookie } from './session-cookie.ts';
import { cannotReadSession, type PortalSessions } from './sessions.ts';

/** The page after the sign-out. It needs no session. */
const SIGNED_OUT = '/portal/signed-out';

/** `Sec-Fetch-Dest` of a page inside another one. Its policy refuses that, so no sign-in begins there. */
const FRAMES: ReadonlySet<string> = new Set(['iframe', 'frame', 'embed', 'object', 'fencedframe']);

/** The address of the sign-in that returns to a path of the portal. */
function signInAddress(returnTo: string): string {
  return `/portal/sign-in?${new URLSearchParams({ return_to: returnTo })}`;
}

/**
 * Where a browser without a valid session goes before it gets the page. Without this the page would ask for its session
 * first, and the browser would report the 401 as an error.
 *
 * @returns a function that returns undefined when the page may be shown: also when sessions cannot be read, because the
 *   page says so and tries again.
 */
export function pageSignIn({
  sessions,
  sessionCookie,
}: {
  readonly sessions: PortalSessions;
  readonly sessionCookie: SessionCookie;
}): (req: Request) => Promise<string | undefined> {
  const hasSession = async (req: Request): Promise<boolean> => {
    const secret = sessionCookie.idOf(req);
    if (secret === undefined) return false;
    try {
      return (await sessions.find(secret)) !== undefined;
    } catch (error) {
      if (cannotReadSession(error)) return true;
      throw error;
    }
  };
  return async (req) => {
    if (req.path === SIGNED_OUT || FRAMES.has(String(req.headers['sec-fetch-dest'])))
      return undefined;
    return (await hasSession(req)) ? undefined : signInAddress(req.originalUrl);
  };
}
