import type { PublicError } from '../errors.ts';

/** The media type of {@link problemDocument}. */
export const PROBLEM_MEDIA_TYPE = 'application/problem+json';

/**
 * The body of an error in `unstable`, the preview of the next version: every 4xx and 5xx is an RFC 9457 problem
 * document. Errors in a response with status 200 do not change. Webhook payloads never use `unstable`.
 */
export function problemDocument(error: PublicError): object {
  const { title, detail, code, errors = [] } = error.problem;
  return { type: 'about:blank', title, status: error.status, detail, code, errors };
}
