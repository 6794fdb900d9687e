import type { ServerResponse } from 'node:http';

export const HINT = 'X-Service-Hint';

/**
 * Adds a hint to the response, which may already have others. It tells people what the caller probably wanted. @param
 * hint in ASCII.
 */
export function addHint(res: ServerResponse, hint: string): void {
  add(res, { name: HINT, value: hint, separator: '; ' });
}

/** Adds a link to the header `Link` of the response, which may already have others. */
export function addLink(res: ServerResponse, link: string): void {
  add(res, { name: 'Link', value: link, separator: ', ' });
}

function add(
  res: ServerResponse,
  o: { readonly name: string; readonly value: string; readonly separator: string },
): void {
  if (res.headersSent) return;
  const others = res.getHeader(o.name);
  res.setHeader(o.name, others === undefined ? o.value : `${others}${o.separator}${o.value}`);
}
