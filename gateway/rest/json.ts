import { parseExactJson } from '../../services/contract/exact-json.ts';
import { badBody } from '../errors.ts';

const utf8 = new TextDecoder('utf-8', { fatal: true });

/**
 * Reads JSON from UTF-8 bytes. The nesting is counted before anything is built, without recursion, so
 * that no depth of brackets can exhaust the stack.
 *
 * @param o.exactNumbers whether numbers are kept as they were sent.
 * @throws HttpRefusal 400 when it is not UTF-8, not JSON, or nests too deep.
 */
export function parseJson(
  bytes: Uint8Array,
  o: { readonly maxDepth: number; readonly exactNumbers: boolean },
): unknown {
  const { maxDepth } = o;
  const text = decode(bytes);
  if (depthOf(text) > maxDepth) throw badBody(`The body must not nest deeper than ${maxDepth}.`);
  return parse(text, o.exactNumbers);
}

/**
 * Reads a JSON object as {@link parseJson} does.
 *
 * @throws HttpRefusal 400 also when it is no object.
 */
export function parseJsonObject(
  bytes: Uint8Array,
  o: { readonly maxDepth: number; readonly exactNumbers: boolean },
): unknown {
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

function parse(text: string, exactNumbers: boolean): unknown {
  try {
    return exactNumbers ? parseExactJson(text) : JSON.parse(text);
  } catch {
    throw badBody('The body must be JSON.');
  }
}

const QUOTE = 34;
const BACKSLASH = 92;

/** How deep brackets nest outside of strings; exact for JSON, and of no matter for anything else. */
function depthOf(text: string): number {
  let depth = 0;
  let deepest = 0;
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) at = endOfString(text, at);
    else if (code === 91 || code === 123) deepest = Math.max(deepest, ++depth);
    else if (code === 93 || code === 125) depth -= 1;
  }
  return deepest;
}

function endOfString(text: string, start: number): number {
  for (let at = start + 1; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) return at;
    if (code === BACKSLASH) at += 1;
  }
  return text.length;
}
