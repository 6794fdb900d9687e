/** The page after a sign-in that named no other one. */
export const PORTAL_PATH = '/portal';

const MAX_LENGTH = 2_048;

/** Paths below `/portal` that are no pages. */
const NOT_PAGES = /^\/portal\/(?:api|assets|sign-in|callback)(?:\/|$)/;

/**
 * The page of the portal to which a sign-in returns. Any text that does not name a page of the portal at this address
 * becomes `/portal`, so that a link to the sign-in cannot lead to another site.
 */
export function returnPathOf(text: string | null): string {
  // Browsers read a backslash as a slash, and remove line breaks.
  if (text === null || text.length > MAX_LENGTH || /[\\\p{Cc}]/u.test(text)) return PORTAL_PATH;
  const base = 'http://portal.invalid';
  const url = text.startsWith('/') ? URL.parse(text, base) : null;
  if (url?.origin !== base) return PORTAL_PATH;
  const isPage = url.pathname === PORTAL_PATH || url.pathname.startsWith(`${PORTAL_PATH}/`);
  return isPage && !NOT_PAGES.test(url.pathname)
    ? `${url.pathname}${url.search}${url.hash}`
    : PORTAL_PATH;
}
