import type { Response } from 'express';
import { type MessageList, messagePage } from './pages.ts';
import { type FormTargets, pageHeaders } from './style.ts';

/** A response to a browser: a page or a redirect. */
export interface PageResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly cookies: readonly string[];
  /** Empty for a redirect. */
  readonly body: string;
}

/** Value of `Retry-After`. Seconds. */
export const RETRY_AFTER_S = 5;

/**
 * The response with a page.
 *
 * @param o.formTargets additional origins that the page's forms may be sent or redirected to; none when absent.
 * @param o.images origins of the page's pictures.
 */
export function page(
  body: string,
  o: {
    readonly status?: number;
    readonly formTargets?: FormTargets;
    readonly images?: readonly string[];
    /** The inline script that the body has. */
    readonly script?: string;
    /** The inline style that the body has, if it is not `STYLE`. */
    readonly style?: string;
  } = {},
): PageResponse {
  const headers = {
    ...pageHeaders(o.formTargets ?? [], o),
    'Content-Type': 'text/html; charset=utf-8',
  };
  return { status: o.status ?? 200, headers, cookies: [], body };
}

export function redirect(location: string, cookies: readonly string[] = []): PageResponse {
  return { status: 303, headers: { Location: location }, cookies, body: '' };
}

/** A page for a request that no supported app sends. The response to such a request is never a redirect. */
export function badRequest(text: string, list?: MessageList): PageResponse {
  return page(messagePage({ title: 'This link does not work', text, list }), { status: 400 });
}

export function ended(): PageResponse {
  const text =
    'This sign-in is already complete, or it took too long. Go back to your app and connect again.';
  return page(messagePage({ title: 'This sign-in has ended', text }), { status: 400 });
}

/** A page for a form of consent with a value that its page does not offer. */
export function unknownChoice(): PageResponse {
  const text =
    'The form contains a choice that this page does not offer, so nothing was allowed. Go back and choose again.';
  return page(messagePage({ title: 'Choose again', text }), { status: 400 });
}

export function unavailable(text: string): PageResponse {
  const response = page(messagePage({ title: 'Not available at the moment', text }), {
    status: 503,
  });
  return { ...response, headers: { ...response.headers, 'Retry-After': String(RETRY_AFTER_S) } };
}

export function sendPage(res: Response, { status, headers, cookies, body }: PageResponse): void {
  for (const [name, value] of Object.entries(headers)) res.setHeader(name, value);
  for (const cookie of cookies) res.append('Set-Cookie', cookie);
  res.setHeader('Content-Length', Buffer.byteLength(body));
  res.status(status).end(body);
}
