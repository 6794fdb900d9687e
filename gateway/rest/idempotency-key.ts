import { createHash, randomUUID } from 'node:crypto';
import { IDEMPOTENCY_KEY_MAX } from '../../services/contract/limits.ts';
import { invalid } from '../errors.ts';

const NAME = 'Idempotency-Key';

/** Visible ASCII and spaces, as an HTTP field carries them unchanged. */
const KEY = new RegExp(`^[\\x20-\\x7e]{1,${IDEMPOTENCY_KEY_MAX}}$`);

/** What identifies a request when the caller sends no key, for operations that treat equal requests as repeats. */
export interface KeyedContent {
  readonly id: bigint;
  /** The validated body. */
  readonly body: unknown;
}

/**
 * The key of a call to a service, from the header `Idempotency-Key`. Without the header it is made from the content, so
 * that a repeat of the same request has no second effect either. Without both it is new: it only covers the retries of
 * the call to the service. The prefix keeps the keys of REST apart from those of
 * internal callers; the hash keeps the caller's own text out of the database.
 *
 * @throws HttpError 422 for a key that is empty or longer than 200 characters, or has other characters than ASCII.
 */
export function idempotencyKeyOf(
  header: string | readonly string[] | undefined,
  content: KeyedContent | undefined,
): string {
  if (header === undefined) {
    if (!content) return `rest:call:${randomUUID()}`;
    return keyFrom('content', `${content.id} ${JSON.stringify(content.body)}`);
  }
  const key = String(header).trim();
  if (!KEY.test(key)) {
    const message = `${NAME} must have 1 to ${IDEMPOTENCY_KEY_MAX} ASCII characters.`;
    throw invalid(message, [{ field: NAME, message }]);
  }
  return keyFrom('header', key);
}

function keyFrom(source: 'content' | 'header', text: string): string {
  return `rest:${source}:${createHash('sha256').update(text).digest('base64url')}`;
}
