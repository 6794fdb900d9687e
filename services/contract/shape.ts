import { change202610 } from './changes/2026-10.ts';
import { PROBLEM_MEDIA_TYPE, problemDocument, type VersionChange } from './changes/change.ts';
import type { PublicError } from './errors.ts';
import type { OperationId } from './operation.ts';
import { UNSTABLE } from './versions.ts';

/** The breaking changes of all versions, newest first. */
const CHANGES: readonly VersionChange[] = [change202610];

/** Converts a successful response from the newest form to the form of `version`. `unstable` uses the newest form. */
export function shapeResponse(version: string, operation: OperationId, body: unknown): unknown {
  return changesSince(version).reduce((shaped, change) => change.response(operation, shaped), body);
}

/** Converts a webhook payload from the newest form to the form of `version`. */
export function shapePayload(version: string, topic: string, payload: object): object {
  return changesSince(version)
    .filter((change) => change.topics.some((changed) => changed === topic))
    .reduce((shaped, change) => change.payload(shaped), payload);
}

/** The breaking changes of a version; undefined for the first version. */
export function changeOf(version: string): VersionChange | undefined {
  return CHANGES.find((change) => change.version === version);
}

/**
 * Makes the error response of `version`. Only the error bodies of `unstable` differ from those of released versions.
 */
export function shapeError(
  version: string,
  error: PublicError,
): { contentType: string; body: object } {
  if (version === UNSTABLE && error.status >= 400) {
    return { contentType: PROBLEM_MEDIA_TYPE, body: problemDocument(error) };
  }
  return { contentType: 'application/json', body: error.body };
}

/** The breaking changes after `version`, newest first. */
export function changesSince(version: string): readonly VersionChange[] {
  if (version === UNSTABLE) return [];
  return CHANGES.filter((change) => change.version > version);
}
