import type { IncomingMessage } from 'node:http';

/**
 * Whether a page of this service sent the request. A browser says so in `Sec-Fetch-Site`, which no script can set. A
 * client that does not send it must send our own `Origin`.
 */
export function isSameOrigin(req: IncomingMessage, ownOrigin: string): boolean {
  const { origin, 'sec-fetch-site': site } = req.headers;
  return site === undefined ? origin === ownOrigin : site === 'same-origin';
}
