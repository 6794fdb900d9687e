import type { PublicError } from '../errors.ts';

export const PROBLEM_MEDIA_TYPE = 'application/problem+json';

/**
 * What the next version previews: every 4xx and 5xx body is an RFC 9457 problem document. Refusals
 * inside a 200 stay as they are, and so do webhook payloads, which never use `unstable`.
 */
export function problemDocument(error: PublicError): object {
  const { title, detail, code, errors = [] } = error.problem;
  return { type: 'about:blank', title, status: error.status, detail, code, errors };
}
