import type { OperationId } from '../operations.ts';

/**
 * What one version broke, and how its answers become those of the version before. Requests have not
 * changed yet. `schemas` edits the component schemas of an OpenAPI document in place.
 */
export interface VersionChange {
  readonly version: string;
  response(operation: OperationId, body: unknown): unknown;
  payload(topic: string, payload: object): object;
  schemas(components: Record<string, unknown>): void;
}
