import { createHash, randomUUID } from 'node:crypto';
import { IDEMPOTENCY_KEY_MAX } from '../../services/contract/limits.ts';
import type { Operation } from '../../services/contract/operation.ts';
import { invalid } from '../errors.ts';

const NAME = 'Idempotency-Key';

/** Visible ASCII and spaces, as an HTTP field carries them unchanged. */
const KEY = new RegExp(`^[\\x20-\\x7e]{1,${IDEMPOTENCY_KEY_MAX}}$`);
/** A string of a structured field (RFC 9651, 3.3.3): in it, a backslash comes before a double quote or another one. */
const QUOTED = /^"((?:[\x20-\x21\x23-\x5b\x5d-\x7e]|\\["\\])*)"$/;

/** What identifies a request when the caller sends no key, for operations that treat equal requests as repeats. */
export interface KeyedContent {
  readonly id: bigint;
  /** The validated body. */
  readonly body: unknown;
}

/**
 * The key of a call to a service, from the header `Idempotency-Key`; empty for an operation that reads none. Without the
 * header the operation decides: the key is made from the content, so that a repeat of the same request has no second
 * effect either; or it is new, and covers only the retries of the call to the service; or it is empty. The prefix keeps
 * the keys of REST apart from those of internal callers; the hash keeps the caller's own text out of the database.
 *
 * The service of the operation stores the key: for 90 days (`services/platform/idempotency.ts`), or with the cart or
 * replay that was created. A key that was used with other content is a 422 (`keyOfOtherContent`).
 *
 * draft-ietf-httpapi-idempotency-key-header has the key in double quotes. Many clients omit them, so `"a"` and `a` are
 * the same key.
 *
 * @throws HttpError 422 for a key that is empty or longer than 200 characters, or has other characters than ASCII.
 */
export function idempotencyKeyOf(
  header: string | readonly string[] | undefined,
  { keyed }: Pick<Operation, 'keyed'>,
  content: KeyedContent,
): string {
  if (keyed === undefined) return '';
  if (header === undefined) return keyWithoutHeader(keyed, content);
  const key = keyIn(String(header).trim());
  if (key === undefined || !KEY.test(key)) {
    const message = `${NAME} must have 1 to ${IDEMPOTENCY_KEY_MAX} ASCII characters.`;
    throw invalid(message, [{ field: NAME, message }]);
  }
  return keyFrom('header', key);
}

function keyWithoutHeader(keyed: NonNullable<Operation['keyed']>, content: KeyedContent): string {
  switch (keyed) {
    case 'content':
      return keyFrom('content', `${content.id} ${JSON.stringify(content.body)}`);
    case 'header':
      return `rest:call:${randomUUID()}`;
    case 'state':
      return '';
    default:
      return keyed satisfies never;
  }
}

/** The text of a key; undefined when its quotes are not those of a string. */
function keyIn(field: string): string | undefined {
  if (!field.startsWith('"')) return field;
  return QUOTED.exec(field)?.[1]?.replace(/\\(["\\])/g, '$1');
}

function keyFrom(source: 'content' | 'header', text: string): string {
  return `rest:${source}:${createHash('sha256').update(text).digest('base64url')}`;
}
