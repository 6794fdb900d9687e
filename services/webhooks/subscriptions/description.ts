import { invalidField } from '../../platform/errors.ts';
import { fits } from '../../platform/text.ts';

/** The maximum length of a description. Unicode characters. */
const DESCRIPTION_MAX = 200;

/**
 * Characters that break a line, that PostgreSQL cannot store, or that change the direction of the text after them: the
 * portal shows the host of the address there.
 */
const FORBIDDEN = /[\p{Cc}\p{Cs}\p{Zl}\p{Zp}\p{Bidi_Control}]/u;

/** A character that a reader sees. */
const VISIBLE = /[^\s\p{Default_Ignorable_Code_Point}]/u;

/**
 * Returns what a subscription is for, without white space around it; empty when nothing of it can be seen.
 *
 * @throws DomainError INVALID_ARGUMENT with the field and the rule.
 */
export function parseDescription(text: string): string {
  const line = text.trim();
  if (FORBIDDEN.test(line)) {
    throw invalidField('description', 'must be one line without control characters');
  }
  if (!fits(line, DESCRIPTION_MAX)) {
    throw invalidField('description', `must be at most ${DESCRIPTION_MAX} characters`);
  }
  return VISIBLE.test(line) ? line : '';
}
