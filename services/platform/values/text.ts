/** Rules for all texts, from any source. */

const BASE64 = /^[A-Za-z0-9+/]*(={0,2})$/;

/** Returns the number of Unicode characters of a text. A surrogate pair is one character. */
export function characters(text: string): number {
  let count = text.length;
  let isAfterHigh = false;
  // This loop reads each UTF-16 unit once. It must be fast, because every service counts the characters of notes of
  // several megabytes.
  for (let index = 0; index < text.length; index++) {
    const kind = text.charCodeAt(index) & SURROGATE_BITS;
    if (isAfterHigh && kind === LOW) count--;
    isAfterHigh = kind === HIGH;
  }
  return count;
}

/** The bits of a UTF-16 unit that say whether it is half of a surrogate pair, and which half. */
const SURROGATE_BITS = 0xfc00;
const HIGH = 0xd800;
const LOW = 0xdc00;

/** Maximum length of a URL. Unicode characters. */
export const URL_MAX = 2_048;

/**
 * Whether a text has at most `max` Unicode characters. Counts them only when the number of UTF-16 units does not
 * decide.
 */
export function fits(text: string, max: number): boolean {
  return text.length <= max || (text.length <= 2 * max && characters(text) <= max);
}

/** Whether a text can be stored and sent: it has no NUL and no half of a surrogate pair. */
export function cleanText(text: string): boolean {
  return text.isWellFormed() && !text.includes('\0');
}

/** Whether a text is empty or only white space. Such a text counts as missing where a text is required. */
export function blank(text: string): boolean {
  return text.trim() === '';
}

/**
 * Returns the form in which identities from outside are compared, hashed and used in keys: NFC (Unicode), trimmed. They
 * are stored as sent. The SQL function `normal_form` of the returns service does the same.
 */
export function normalForm(text: string): string {
  return text.normalize('NFC').trim();
}

/**
 * Makes a text from outside safe to store, to log and to show: replaces control characters and halves of surrogate
 * pairs.
 *
 * @param max number of UTF-16 units to which the text is cut.
 */
export function printable(text: string, max = text.length): string {
  return text.slice(0, max).replace(/[\p{Cc}\p{Cs}]/gu, '\ufffd');
}

/** Scripts with letters that look like Latin ones, and Latin. */
const LOOKALIKE = ['Latin', 'Cyrillic', 'Greek', 'Armenian', 'Cherokee', 'Coptic', 'Lisu'].map(
  (script) => new RegExp(`\\p{Script=${script}}`, 'u'),
);
/** Joiners, which these scripts need between and after their letters. */
const JOINER =
  /(?<=[\p{scx=Arab}\p{scx=Beng}\p{scx=Deva}\p{scx=Gujr}\p{scx=Guru}\p{scx=Khmr}\p{scx=Knda}\p{scx=Mlym}\p{scx=Mymr}\p{scx=Orya}\p{scx=Sinh}\p{scx=Taml}\p{scx=Telu}])[\u200C\u200D]/gu;
/** An emoji, with the characters that join several to one. */
const EMOJI =
  /\p{RGI_Emoji}|\p{Extended_Pictographic}(?:[\uFE0F\u200D]+\p{Extended_Pictographic}?)*/gv;
const INVISIBLE = /[\p{Default_Ignorable_Code_Point}\p{Zl}\p{Zp}\p{Cc}\u2800]/u;

const MATHEMATICAL = /[\u{1D400}-\u{1D7FF}]/u;

/**
 * Why a name that people read could deceive them; undefined when it cannot: characters that are invisible or change the
 * direction of text, letters of mathematics, and words with letters of two scripts that look alike.
 */
export function nameProblem(name: string): string | undefined {
  const text = name.replace(EMOJI, '').replace(JOINER, '');
  if (INVISIBLE.test(text)) {
    return 'must not have characters that are invisible or change the direction of text';
  }
  const words = text.match(/[\p{L}\p{M}]+/gu) ?? [];
  const isMixed = words.some((word) => LOOKALIKE.filter((one) => one.test(word)).length > 1);
  if (isMixed) return 'must not mix scripts that look alike in one word';
  return MATHEMATICAL.test(text) ? 'must not have letters of mathematics' : undefined;
}

/** Whether a text has the form of Base64 (RFC 4648 section 4), with or without padding. Does not decode it. */
export function isBase64(text: string): boolean {
  const padding = BASE64.exec(text)?.[1];
  if (padding === undefined) return false;
  return padding === '' ? text.length % 4 !== 1 : text.length % 4 === 0;
}

/** Converts `hsCode` to `hs_code`. */
export function snakeCase(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

/** Parses a text as JSON. Undefined when it is not JSON. */
export function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** The form of an e-mail address. Only a mail shows whether an address exists. */
export const EMAIL_FORM = /^[^\s@]+@[^\s@]+$/;
