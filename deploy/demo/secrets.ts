import { createHash } from 'node:crypto';
import { keyOf } from '../../gateway/auth/key-format.ts';

/** Every secret of the demo is public, and has this mark, by which deploy/check recognises it. */
const MARK = 'dev-only-';

/**
 * The secret of a name, always the same: an API key for `key:…`, else a word that can be typed, such as
 * `dev-only-owner` for `password:owner`.
 */
export function demoSecret(name: string): string {
  if (!name.startsWith('key:')) return MARK + name.replace(/^\w+:/, '');
  const digits = createHash('sha256')
    .update(MARK + name)
    .digest('hex');
  return keyOf(digits.slice(0, 12), digits.slice(12, 52)).text;
}
