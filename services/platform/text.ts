/** Rules that every text obeys, wherever it comes from. */

const BASE64 = /^[A-Za-z0-9+/]*(={0,2})$/;

/** How many Unicode characters a text has: a surrogate pair is one. */
export function characters(text: string): number {
  let count = text.length;
  let isAfterHigh = false;
  // Each unit is read once: notes of megabytes are counted in every service.
  for (let index = 0; index < text.length; index++) {
    const kind = text.charCodeAt(index) & SURROGATE_BITS;
    if (isAfterHigh && kind === LOW) count--;
    isAfterHigh = kind === HIGH;
  }
  return count;
}

/** Where these bits of a UTF-16 unit say that it is half of a pair, and which half. */
const SURROGATE_BITS = 0xfc00;
const HIGH = 0xd800;
const LOW = 0xdc00;

/** Whether a text has at most `max` Unicode characters; cheap for short texts. */
export function fits(text: string, max: number): boolean {
  return text.length <= max || (text.length <= 2 * max && characters(text) <= max);
}

/** Whether a text can be stored and sent on: no NUL, no half of a surrogate pair. */
export function cleanText(text: string): boolean {
  return text.isWellFormed() && !text.includes('\0');
}

/** Whether a text is empty or only white space: a required one then counts as missing. */
export function blank(text: string): boolean {
  return text.trim() === '';
}

/** Whether a text is Base64 (RFC 4648 section 4), padded or not. The content is not looked at. */
export function isBase64(text: string): boolean {
  const padding = BASE64.exec(text)?.[1];
  if (padding === undefined) return false;
  return padding === '' ? text.length % 4 !== 1 : text.length % 4 === 0;
}

/** `hsCode` is `hs_code`. */
export function snakeCase(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}
