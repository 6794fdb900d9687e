/**
 * Makes a text of a request safe for a response: cuts it to `max` UTF-16 units, and replaces control characters and
 * halves of surrogate pairs.
 */
export function printable(text: string, max: number): string {
  return text.slice(0, max).replace(/[\p{Cc}\p{Cs}]/gu, '\ufffd');
}
