/** The page that opens after a sign-in without a requested page. */
export const PORTAL_PATH = '/portal';

const MAX_LENGTH = 2_048;

/** Paths below `/portal` that have no page. */
const NOT_PAGES = /^\/portal\/(?:api|assets|sign-in|callback|invitation)(?:\/|$)/;

/**
 * The page of the portal that opens after a sign-in. A text that is not the path of a page of the portal becomes
 * `/portal`, so that a link to the sign-in cannot lead to another site.
 */
export function returnPathOf(text: string | null): string {
  // A browser reads a backslash as a slash and removes line breaks, so it could open another address than the one
  // checked here.
  if (text === null || text.length > MAX_LENGTH || /[\\\p{Cc}]/u.test(text)) return PORTAL_PATH;
  const base = 'http://portal.invalid';
  const url = text.startsWith('/') ? URL.parse(text, base) : null;
  if (url?.origin !== base) return PORTAL_PATH;
  const isPage = url.pathname === PORTAL_PATH || url.pathname.startsWith(`${PORTAL_PATH}/`);
  return isPage && !NOT_PAGES.test(url.pathname)
    ? `${url.pathname}${url.search}${url.hash}`
    : PORTAL_PATH;
}
