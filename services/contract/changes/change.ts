import type { OperationId } from '../operation.ts';
import type { Topic } from '../vocabulary.ts';

/**
 * The breaking changes of one version. Its functions convert responses, payloads and schemas to those of the previous
 * version. Requests have not changed so far. `schemas` edits the component schemas of an OpenAPI document in place.
 */
export interface VersionChange {
  readonly version: string;
  /** What changed: the words of its section of the changelog, without the full stop. Names of fields are in backticks. */
  readonly about: string;
  /** What changed in payloads, for people who do not program: a sentence with its full stop. */
  readonly inWords: string;
  /** The topics of webhooks whose payloads changed. */
  readonly topics: readonly Topic[];
  response(operation: OperationId, body: unknown): unknown;
  /** Called only for payloads of {@link topics}. */
  payload(payload: object): object;
  schemas(components: Record<string, unknown>): void;
}
