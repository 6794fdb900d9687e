import { createHash, randomUUID } from 'node:crypto';
import { IDEMPOTENCY_KEY_MAX } from '../../services/contract/limits.ts';
import type { Operation } from '../../services/contract/operation.ts';
import { invalid } from '../errors.ts';

const NAME = 'Idempotency-Key';

/** Visible ASCII and spaces, which an HTTP field transports unchanged. */
const KEY = new RegExp(`^[\\x20-\\x7e]{1,${IDEMPOTENCY_KEY_MAX}}$`);
/** A string of a structured field (RFC 9651, 3.3.3). A double quote or backslash in it has a backslash before it. */
const QUOTED = /^"((?:[\x20-\x21\x23-\x5b\x5d-\x7e]|\\["\\])*)"$/;

/**
 * The content of a request. It identifies the request when the caller sends no key and the operation treats equal
 * requests as repeats.
 */
export interface KeyedContent {
  readonly id: bigint;
  /** The validated body. */
  readonly body: unknown;
}

/**
 * Returns the idempotency key for the call to the service. It is made from the header `Idempotency-Key`. An operation
 * without `keyed` has an empty key.
 *
 * When the header is absent, `keyed` of the operation decides:
 *
 * - `content`: the key is made from the content, so that an equal request has no second effect.
 * - `header`: the key is new, and covers only the retries of the call to the service.
 * - `state`: the key is empty.
 *
 * The prefix separates the keys of REST from those of internal callers. The hash keeps the caller's own text out of the
 * database.
 *
 * The service stores the key for 90 days (`services/platform/idempotency.ts`), or as long as the cart or replay that it
 * created. A key that was used with other content is a 422 (`keyOfOtherContent`).
 *
 * draft-ietf-httpapi-idempotency-key-header has the key in double quotes. Many clients omit them, so `"a"` and `a` are
 * the same key.
 *
 * @throws HttpError 422 for a key that is empty, longer than 200 characters, or not ASCII.
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

/** Returns the key without its quotes; undefined when it begins with a quote and is not a valid quoted string. */
function keyIn(field: string): string | undefined {
  if (!field.startsWith('"')) return field;
  return QUOTED.exec(field)?.[1]?.replace(/\\(["\\])/g, '$1');
}

function keyFrom(source: 'content' | 'header', text: string): string {
  return `rest:${source}:${createHash('sha256').update(text).digest('base64url')}`;
}
