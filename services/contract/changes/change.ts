import type { PublicError } from '../errors.ts';
import type { OperationId } from '../operation.ts';
import type { Topic } from '../vocabulary.ts';

/**
 * The breaking changes of one version. The functions `response`, `payload` and `schemas` convert what this version has
 * to the form of the previous version. `schemas` edits the component schemas of an OpenAPI document in place. Requests
 * have not changed so far, so there is no function for them.
 */
export interface VersionChange {
  readonly version: string;
  /** What changed, in the words of the changelog and without the full stop. Names of fields are in backticks. */
  readonly about: string;
  /** What changed in payloads, for people who do not program: one sentence with its full stop. */
  readonly inWords: string;
  /** The topics of webhooks whose payloads changed. */
  readonly topics: readonly Topic[];
  response(operation: OperationId, body: unknown): unknown;
  /** Called only for payloads of {@link VersionChange.topics}. */
  payload(payload: object): object;
  schemas(components: Record<string, unknown>): void;
}

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
