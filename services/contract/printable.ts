/**
 * Text that a caller chose, fit to come back in an answer: cut to `max` UTF-16 units, with a replacement
 * for each control character and each half of one that was cut in two.
 */
export function printable(text: string, max: number): string {
  return text.slice(0, max).replace(/[\p{Cc}\p{Cs}]/gu, '\ufffd');
}
