import { ConnectError } from '@connectrpc/connect';
import { fieldOf } from '../services/platform/values/errors.ts';

/**
 * Converts the error message of a service to a sentence, without the code that Connect puts before it. A field name at
 * its beginning keeps its case.
 */
export function errorSentence(error: unknown): string {
  const text =
    error instanceof ConnectError ? error.rawMessage : error instanceof Error ? error.message : '';
  const [word = ''] = text.split(' ', 1);
  const isName = word === fieldOf(error) || /[_[]|\.\w/.test(word);
  const first = isName ? text : text.replace(/^./u, (letter) => letter.toUpperCase());
  return /[.!?]$/.test(first) ? first : `${first}.`;
}
