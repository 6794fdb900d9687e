// Keeps numbers exactly as the caller sent them. JSON does not limit the digits of a number, but a double has limited
// precision. A number that a double would write differently is kept as text, and JSON.stringify writes this text.

/** A number as JSON text. Only {@link exactNumber} and {@link parseExactJson} make it. */
export interface NumberText {
  readonly rawJSON: string;
}

/** Functions of Node that TypeScript does not declare yet. */
interface SourceAccess {
  rawJSON(text: string): NumberText;
  isRawJSON(value: unknown): value is NumberText;
}
const sourceAccess = JSON as unknown as SourceAccess;

/**
 * Parses JSON so that JSON.stringify writes every number exactly as in `text`: `1.10`, and integers above 2^53 with all
 * digits. Recursive: the caller limits the depth of hostile texts, as `gateway/http/json.ts` does.
 *
 * @param maxKept the maximum number of numbers that are kept as text.
 * @throws SyntaxError when `text` is not JSON; RangeError when more than `maxKept` numbers would be kept.
 */
export function parseExactJson(text: string, maxKept = Number.POSITIVE_INFINITY): unknown {
  return parseMarking(text, {
    isMarked: (source) => !isExact(source),
    maxMarked: maxKept,
    read: sourceAccess.rawJSON,
  });
}

/**
 * Parses JSON as JSON.parse does, except numbers with a fraction that JSON.parse would round to an integer, such as
 * `9007199254740991.4`. They become NaN, so that a schema that needs an integer rejects them.
 *
 * @param maxNaN the maximum number of such numbers.
 * @throws SyntaxError when `text` is not JSON; RangeError when more than `maxNaN` numbers would become NaN.
 */
export function parseJsonWithoutRounding(text: string, maxNaN: number): unknown {
  return parseMarking(text, {
    isMarked: isRoundedToInteger,
    maxMarked: maxNaN,
    read: () => Number.NaN,
  });
}

interface Marking {
  /** Whether a number, as JSON text, is marked. */
  readonly isMarked: (source: string) => boolean;
  readonly maxMarked: number;
  /** Reads a marked number. */
  readonly read: (source: string) => unknown;
}

/** Parses JSON, and reads each marked number with `read`. */
function parseMarking(text: string, o: Marking): unknown {
  // Put such numbers into quotes, with a mark that the caller cannot guess, and remove both after JSON.parse. A reviver
  // would cost twenty times as much.
  const mark = crypto.randomUUID().slice(-MARK_LENGTH);
  const marked = withMarkedNumbers(text, mark, o);
  return marked === text ? JSON.parse(text) : unmarked(JSON.parse(marked), mark, o.read);
}

/** The hexadecimal digits of a mark: 48 random bits for each call. */
const MARK_LENGTH = 12;
const QUOTE = 34;
const BACKSLASH = 92;
const MINUS = 45;
const ZERO = 48;
const NINE = 57;
/** A number in JSON (RFC 8259, 6). */
const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;

/** Returns the text with quotes and a mark around each number that is marked. */
function withMarkedNumbers(text: string, mark: string, { isMarked, maxMarked }: Marking): string {
  let marked = '';
  let copied = 0;
  let count = 0;
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) at = endOfString(text, at);
    else if (code === MINUS || (code >= ZERO && code <= NINE)) {
      const end = endOfNumber(text, at);
      const source = text.slice(at, end);
      if (isMarked(source) && !isName(text, end)) {
        marked += `${text.slice(copied, at)}"${mark}${source}"`;
        copied = end;
        count += 1;
        if (count > maxMarked) throw new RangeError(`more than ${maxMarked} numbers to mark`);
      }
      at = end - 1;
    }
  }
  return copied === 0 ? text : marked + text.slice(copied);
}

/**
 * Returns the end of the number at `start`. Returns `start + 1` when there is no number; JSON.parse rejects such a text
 * later.
 */
function endOfNumber(text: string, start: number): number {
  NUMBER.lastIndex = start;
  return NUMBER.test(text) ? NUMBER.lastIndex : start + 1;
}

function isExact(source: string): boolean {
  return String(Number(source)) === source;
}

function isRoundedToInteger(source: string): boolean {
  return Number.isInteger(Number(source)) && !isIntegerText(source);
}

/** A number in JSON: the digits before the dot, those after it, and the exponent. */
const NUMBER_PARTS = /^-?(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/;

/** Whether the number of a JSON text is an integer, before any rounding: `7`, `7.0` and `0.7e1` are. */
function isIntegerText(source: string): boolean {
  // Without a dot, only a negative exponent can make a fraction.
  if (!source.includes('.') && !source.includes('-', 1)) return true;
  const [, whole = '', fraction = '', exponent = '0'] = NUMBER_PARTS.exec(source) ?? [];
  const digits = whole + fraction;
  // A regular expression for the zeros at the end could need quadratic time.
  let significant = digits.length;
  while (significant > 0 && digits.charCodeAt(significant - 1) === ZERO) significant -= 1;
  return significant === 0 || significant <= whole.length + Number(exponent);
}

const COMMA = 44;
const COLON_NEXT = /[ \t\n\r]*:/y;

/** Whether a colon follows. Then the number is in the place of a name, which JSON does not allow. */
function isName(text: string, end: number): boolean {
  if (text.charCodeAt(end) === COMMA) return false;
  COLON_NEXT.lastIndex = end;
  return COLON_NEXT.test(text);
}

/** Replaces marked texts by numbers, everywhere in a value. */
function unmarked(value: unknown, mark: string, read: Marking['read']): unknown {
  if (typeof value === 'string') {
    return value.startsWith(mark) ? read(value.slice(mark.length)) : value;
  }
  if (Array.isArray(value)) {
    for (let at = 0; at < value.length; at += 1) value[at] = unmarked(value[at], mark, read);
  } else if (typeof value === 'object' && value !== null) {
    // JSON.parse makes every key an own property, even `__proto__`. So this assignment changes no prototype.
    const entries = value as Record<string, unknown>;
    for (const key of Object.keys(entries)) entries[key] = unmarked(entries[key], mark, read);
  }
  return value;
}

/** Number of characters of a string that are checked one by one. After them `indexOf` searches for its end. */
const SHORT = 32;

/**
 * Finds the end of a JSON string. Uses `indexOf`, because valid texts may have many megabytes.
 *
 * @param start the position of its first quote.
 * @returns the position of its last quote; the length of the text when there is none.
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
    // Everything before `at` was checked. So only backslashes after `at` can escape this quote.
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

/** Returns a JSON number: a double when the double is written in the same way, else the text of the number. */
export function exactNumber(text: string): number | NumberText {
  const value = Number(text);
  return String(value) === text ? value : sourceAccess.rawJSON(text);
}

/** Returns the nearest double of a number in either form; undefined for other values. */
export function numberOf(value: unknown): number | undefined {
  if (typeof value === 'number') return value;
  return sourceAccess.isRawJSON(value) ? Number(value.rawJSON) : undefined;
}

/** Whether a value is a number, in either form. */
export function isNumber(value: unknown): value is number | NumberText {
  return numberOf(value) !== undefined;
}

/** Whether a value is an integer, as a number in either form. The text of a number is not rounded for this. */
export function isInteger(value: unknown): boolean {
  return sourceAccess.isRawJSON(value) ? isIntegerText(value.rawJSON) : Number.isInteger(value);
}

/** Returns the text of a number in either form. */
export function numberText(value: number | NumberText): string {
  return typeof value === 'number' ? String(value) : value.rawJSON;
}
