import { createHash } from 'node:crypto';
import { RELEASED, UNSTABLE } from '../versions.ts';
import { openapiDocument } from './document.ts';

/**
 * Hashes of the public shape and of its changelog, from the last `npm run docs`. If the shape changes and the changelog
 * does not, `npm run docs` fails, so that every change is in the changelog.
 */
export interface ChangelogLock {
  /** SHA-256 of all documents, without descriptions and examples. */
  readonly shape: string;
  /** SHA-256 of docs/changelog.md. */
  readonly changelog: string;
}

/** Computes the hashes. @param changelog the text of docs/changelog.md. */
export function changelogLock(changelog: string): ChangelogLock {
  const documents = [...RELEASED, UNSTABLE].map(openapiDocument);
  return { shape: hashOf(JSON.stringify(documents, withoutWords)), changelog: hashOf(changelog) };
}

/** Requires a change of the changelog. @throws Error when the shape has changed and the changelog has not. */
export function requireChangelogEntry(before: ChangelogLock, now: ChangelogLock): void {
  if (before.shape === now.shape || before.changelog !== now.changelog) return;
  throw new Error(
    'The public shape changed. Say in docs/changelog.md what changes for callers (under "All versions", unless it breaks them), then run `npm run docs` again.',
  );
}

const WORDS = new Set(['description', 'summary', 'example', 'examples']);

/**
 * Leaves out descriptions and examples. A property of an API object may also be called `description`: then its value is
 * a schema, which is an object, and stays.
 */
function withoutWords(name: string, value: unknown): unknown {
  const isWord = WORDS.has(name) && (typeof value !== 'object' || name.startsWith('example'));
  return isWord ? undefined : value;
}

function hashOf(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
