import { change202610 } from './changes/2026-10.ts';
import type { VersionChange } from './changes/change.ts';
import { PROBLEM_MEDIA_TYPE, problemDocument } from './changes/unstable.ts';
import type { PublicError } from './errors.ts';
import type { OperationId } from './operations.ts';
import { UNSTABLE } from './versions.ts';

/** Breaking changes, newest first: what separates the newest shape from the older ones. */
const CHANGES: readonly VersionChange[] = [change202610];

/** Reshapes the newest form of a successful answer for `version`; `unstable` answers the newest. */
export function shapeResponse(version: string, operation: OperationId, body: unknown): unknown {
  return changesSince(version).reduce((shaped, change) => change.response(operation, shaped), body);
}

/** Reshapes the newest form of a webhook payload for `version`. */
export function shapePayload(version: string, topic: string, payload: object): object {
  return changesSince(version).reduce((shaped, change) => change.payload(topic, shaped), payload);
}

/** Shapes a refusal for `version`: only `unstable` differs from the released bodies. */
export function shapeError(
  version: string,
  error: PublicError,
): { contentType: string; body: object } {
  if (version === UNSTABLE && error.status >= 400) {
    return { contentType: PROBLEM_MEDIA_TYPE, body: problemDocument(error) };
  }
  return { contentType: 'application/json', body: error.body };
}

/** The changes that a caller of `version` does not know yet, newest first. */
export function changesSince(version: string): readonly VersionChange[] {
  if (version === UNSTABLE) return [];
  return CHANGES.filter((change) => change.version > version);
}
