import { JSON_KEPT_NUMBERS_MAX } from '../../services/contract/limits.ts';
import {
  endOfString,
  parseExactJson,
  parseJsonWithoutRounding,
} from '../../services/contract/validate/exact-json.ts';
import { badBody } from '../errors.ts';

const utf8 = new TextDecoder('utf-8', { fatal: true });

/**
 * Parses JSON from UTF-8 bytes. Checks the nesting depth first, without recursion, so that deep nesting cannot exhaust
 * the stack.
 *
 * @param o.exactNumbers whether numbers keep all their digits. Otherwise a number with a fraction that a double would
 *   round to an integer becomes NaN.
 * @param o.maxEntries maximum number of lists, objects and their entries together; unbounded when absent.
 * @throws HttpError 400 for bytes that are not UTF-8 or not JSON, for too deep nesting, and for too many entries.
 */
export function parseJson(
  bytes: Uint8Array,
  o: {
    readonly maxDepth: number;
    readonly exactNumbers: boolean;
    readonly maxEntries?: number;
  },
): unknown {
  const { maxDepth, maxEntries = Number.POSITIVE_INFINITY } = o;
  const text = decode(bytes);
  const { depth, entries, hasFractions } = extentOf(text);
  if (depth > maxDepth) throw badBody(`The body must not nest deeper than ${maxDepth}.`);
  if (entries > maxEntries)
    throw badBody(`The body must not have more than ${maxEntries} entries.`);
  return parse(text, { exactNumbers: o.exactNumbers, hasFractions });
}

/**
 * As {@link parseJson}, for a JSON object.
 *
 * @throws HttpError 400 also when the value is not an object.
 */
export function parseJsonObject(bytes: Uint8Array, o: Parameters<typeof parseJson>[1]): unknown {
  const value = parseJson(bytes, o);
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value;
  throw badBody('The body must be a JSON object.');
}

function decode(bytes: Uint8Array): string {
  try {
    return utf8.decode(bytes);
  } catch {
    throw badBody('The body must be JSON in UTF-8.');
  }
}

function parse(
  text: string,
  { exactNumbers, hasFractions }: { exactNumbers: boolean; hasFractions: boolean },
): unknown {
  try {
    if (exactNumbers) return parseExactJson(text, JSON_KEPT_NUMBERS_MAX);
    // Few bodies have fractions, and JSON.parse is faster.
    return hasFractions ? parseJsonWithoutRounding(text, JSON_KEPT_NUMBERS_MAX) : JSON.parse(text);
  } catch (error) {
    if (error instanceof RangeError) {
      throw badBody(
        `The body must not have more than ${JSON_KEPT_NUMBERS_MAX} numbers with zeros at their end, exponents, or more digits than a double holds.`,
      );
    }
    throw badBody('The body must be JSON.', hintOf(error));
  }
}

/**
 * Says at which place the text is not valid JSON, from V8's error. Never repeats a part of the text, because it may be
 * secret.
 */
function hintOf(error: unknown): string | undefined {
  const text = error instanceof SyntaxError ? error.message : '';
  const [, position] = / at position (\d+)/.exec(text) ?? [];
  if (position !== undefined)
    return `the body is not JSON from character ${Number(position) + 1} on`;
  return text === 'Unexpected end of JSON input' ? 'the body ends too early' : undefined;
}

/** Number of lists, objects and their entries in a JSON text. */
export function entriesIn(text: string): number {
  return extentOf(text).entries;
}

const QUOTE = 34;
const COMMA = 44;
const MINUS = 45;
const DOT = 46;
const OPEN_LIST = 91;
const CLOSE_LIST = 93;
const OPEN_OBJECT = 123;
const CLOSE_OBJECT = 125;

interface Extent {
  readonly depth: number;
  readonly entries: number;
  /** Whether a number may have a fraction: it has a dot, or a minus sign, which may belong to its exponent. */
  readonly hasFractions: boolean;
}

/**
 * Counts the nesting depth of brackets, and the number of opening brackets and commas; both outside of strings. The
 * result is exact for valid JSON. For other texts it does not matter, because the parser rejects them.
 */
function extentOf(text: string): Extent {
  let depth = 0;
  let deepest = 0;
  let entries = 0;
  let hasFractions = false;
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) at = endOfString(text, at);
    else if (code === COMMA) entries += 1;
    else if (code === CLOSE_LIST || code === CLOSE_OBJECT) depth -= 1;
    else if (code === OPEN_LIST || code === OPEN_OBJECT) {
      entries += 1;
      deepest = Math.max(deepest, ++depth);
    } else if (code === DOT || code === MINUS) hasFractions = true;
  }
  return { depth: deepest, entries, hasFractions };
}
