import { createHash } from 'node:crypto';
import { keyOf } from '../../gateway/auth/key-format.ts';

/** Marks the secrets of the demo, which are public. deploy/check rejects secrets with this mark. */
const MARK = 'dev-only-';

/**
 * The secret with this name, the same at each call: an API key for `key:…`, otherwise a word that a person can type,
 * such as `dev-only-owner` for `password:owner`.
 */
export function demoSecret(name: string): string {
  if (!name.startsWith('key:')) return MARK + name.replace(/^\w+:/, '');
  const digits = createHash('sha256')
    .update(MARK + name)
    .digest('hex');
  // The id of a key has 12 characters, its secret 40.
  return keyOf(digits.slice(0, 12), digits.slice(12, 52)).text;
}
