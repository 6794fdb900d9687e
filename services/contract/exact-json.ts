// Numbers as they were sent: JSON has no limit on digits, a double has. A number that a double would
// not write in the same way is kept as its text, and JSON.stringify writes that text.

/** A number as JSON text; made by {@link exactNumber} and {@link parseExactJson} only. */
export interface NumberText {
  readonly rawJSON: string;
}

/** Part of Node; the library of TypeScript does not know it yet. */
interface SourceAccess {
  rawJSON(text: string): NumberText;
  isRawJSON(value: unknown): value is NumberText;
}
const sourceAccess = JSON as unknown as SourceAccess;

/**
 * Parses JSON so that JSON.stringify writes every number as it stands in `text`: `1.10`, and integers
 * above 2^53 digit by digit.
 *
 * @param maxKept how many numbers may be kept as their text.
 * @throws SyntaxError when it is no JSON, RangeError when more numbers would be kept.
 */
export function parseExactJson(text: string, maxKept = Number.POSITIVE_INFINITY): unknown {
  // In quotes behind a mark that nobody can guess: a reviver would cost some twenty times the parsing.
  const mark = crypto.randomUUID().slice(-MARK_LENGTH);
  const marked = withMarkedNumbers(text, mark, maxKept);
  return marked === text ? JSON.parse(text) : unmarked(JSON.parse(marked), mark);
}

/** Hexadecimal digits: 48 random bits, of one parse alone. */
const MARK_LENGTH = 12;
const QUOTE = 34;
const BACKSLASH = 92;
const MINUS = 45;
const ZERO = 48;
const NINE = 57;
/** RFC 8259, 6. */
const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;

/** The text, with every number marked and in quotes that a double would not write in the same way. */
function withMarkedNumbers(text: string, mark: string, most: number): string {
  let marked = '';
  let copied = 0;
  let kept = 0;
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) at = endOfString(text, at);
    else if (code === MINUS || (code >= ZERO && code <= NINE)) {
      const end = endOfNumber(text, at);
      const source = text.slice(at, end);
      if (!isExact(source) && !isName(text, end)) {
        marked += `${text.slice(copied, at)}"${mark}${source}"`;
        copied = end;
        kept += 1;
        if (kept > most) throw new RangeError(`more than ${most} numbers to keep`);
      }
      at = end - 1;
    }
  }
  return copied === 0 ? text : marked + text.slice(copied);
}

/** Where no number begins, one character: what is marked of it is refused when it is restored. */
function endOfNumber(text: string, start: number): number {
  NUMBER.lastIndex = start;
  return NUMBER.test(text) ? NUMBER.lastIndex : start + 1;
}

function isExact(source: string): boolean {
  return String(Number(source)) === source;
}

const COMMA = 44;
const COLON_NEXT = /[ \t\n\r]*:/y;

/** Whether what ends there stands in the place of a name; a number there is no JSON. */
function isName(text: string, end: number): boolean {
  if (text.charCodeAt(end) === COMMA) return false;
  COLON_NEXT.lastIndex = end;
  return COLON_NEXT.test(text);
}

/** Puts numbers in the place of marked texts, everywhere in a value. */
function unmarked(value: unknown, mark: string): unknown {
  if (typeof value === 'string') {
    return value.startsWith(mark) ? sourceAccess.rawJSON(value.slice(mark.length)) : value;
  }
  if (Array.isArray(value)) {
    for (let at = 0; at < value.length; at += 1) value[at] = unmarked(value[at], mark);
  } else if (typeof value === 'object' && value !== null) {
    // Every key is its own, `__proto__` too: JSON.parse made it.
    const entries = value as Record<string, unknown>;
    for (const key of Object.keys(entries)) entries[key] = unmarked(entries[key], mark);
  }
  return value;
}

/** How far a string is looked at character by character, before its end is searched for. */
const SHORT = 32;

/**
 * Where a JSON string ends, at the cost of a search for bytes: texts of many megabytes are legal.
 *
 * @param start place of its first quote.
 * @returns place of its last quote; the length of the text when there is none.
 */
export function endOfString(text: string, start: number): number {
  let at = start + 1;
  while (at < text.length) {
    for (const end = at + SHORT; at < end && at < text.length; at += 1) {
      const code = text.charCodeAt(at);
      if (code === QUOTE) return at;
      if (code === BACKSLASH) at += 1;
    }
    const quote = text.indexOf('"', at);
    if (quote === -1) return text.length;
    // Whatever stands before `at` was read whole, so its backslashes escape nothing from there on.
    if (backslashesBefore(text, quote, at) % 2 === 0) return quote;
    at = quote + 1;
  }
  return text.length;
}

function backslashesBefore(text: string, place: number, from: number): number {
  let at = place;
  while (at > from && text.charCodeAt(at - 1) === BACKSLASH) at -= 1;
  return place - at;
}

/** A JSON number: as a number where that is written in the same way, else as its text. */
export function exactNumber(text: string): number | NumberText {
  const value = Number(text);
  return String(value) === text ? value : sourceAccess.rawJSON(text);
}

/** The nearest double of a number in either form; undefined for anything else. */
export function numberOf(value: unknown): number | undefined {
  if (typeof value === 'number') return value;
  return sourceAccess.isRawJSON(value) ? Number(value.rawJSON) : undefined;
}

/** The text of a number in either form. */
export function numberText(value: number | NumberText): string {
  return typeof value === 'number' ? String(value) : value.rawJSON;
}
