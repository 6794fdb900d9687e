import type { OperationId } from '../operation.ts';

/**
 * The breaking changes of one version. Its functions convert responses, payloads and schemas to those of the previous
 * version. Requests have not changed so far. `schemas` edits the component schemas of an OpenAPI document in place.
 */
export interface VersionChange {
  readonly version: string;
  response(operation: OperationId, body: unknown): unknown;
  payload(topic: string, payload: object): object;
  schemas(components: Record<string, unknown>): void;
}
