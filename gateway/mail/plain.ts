/**
 * Makes a text of people or of other systems safe for a line of a mail and for a header: no line breaks, no control
 * characters, no characters that change the direction of text, at most `max` characters.
 */
export function plain(text: string, max: number): string {
  const line = text.replace(/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]+/gu, ' ').trim();
  return [...line].slice(0, max).join('');
}
