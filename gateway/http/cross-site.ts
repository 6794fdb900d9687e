import type { IncomingMessage } from 'node:http';

/**
 * Whether the browser reports that another site sent the form. The `Lax` cookies already protect against such forms;
 * this is a second protection. `Sec-Fetch-Site` decides when it is present, because some browsers send `Origin: null`.
 */
export function isCrossSite(req: IncomingMessage, ownOrigin: string): boolean {
  if (req.method !== 'POST') return false;
  const { origin, 'sec-fetch-site': site } = req.headers;
  if (site !== undefined && site !== 'same-origin') return true;
  const isHidden = origin === 'null' && site === 'same-origin';
  return origin !== undefined && origin !== ownOrigin && !isHidden;
}
