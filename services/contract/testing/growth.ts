import { isDeepStrictEqual } from 'node:util';
import { isObject, type JsonObject } from '../validate/json-object.ts';

/**
 * Finds breaking changes of a released OpenAPI document (interface: Versioning, rules 6 and 7). Keys and list entries
 * may be added, but not removed, and values must not change. A request must not require more: its `required` lists
 * are compared in the other direction. Texts for people may change, and an object may become a reference to an equal one.
 */
export function breakingChanges(before: JsonObject, after: JsonObject): string[] {
  return compare({ before, after, path: '', request: false, root: after });
}

interface Pair {
  readonly before: unknown;
  readonly after: unknown;
  readonly path: string;
  /** True inside a request. */
  readonly request: boolean;
  /** The new document, in which references are found. */
  readonly root: JsonObject;
}

const PROSE = new Set(['description', 'summary', 'title']);
/** What the document says about the whole API, for people. */
const ABOUT = '/info';
const SENT = /Body$|Input$/;

function compare(pair: Pair): string[] {
  const { before, path } = pair;
  if (path === ABOUT) return [];
  const after = isReference(before) ? pair.after : resolved(pair.after, pair.root);
  if (isObject(before) && isObject(after)) return compareObjects(before, after, pair);
  if (Array.isArray(before) && Array.isArray(after)) return compareLists(before, after, pair);
  if (pair.request && path.endsWith('/pattern') && isMadeOptional(before, after)) return [];
  return isDeepStrictEqual(before, after) ? [] : [`${path} changed`];
}

/** Whether a pattern accepts the same texts as before, and an empty text: `^[a-z]$` became `^(?:[a-z])?$`. */
function isMadeOptional(before: unknown, after: unknown): boolean {
  const [, inner] = /^\^([^|]+)\$$/.exec(String(before)) ?? [];
  return inner !== undefined && after === `^(?:${inner})?$`;
}

function compareObjects(before: JsonObject, after: JsonObject, pair: Pair): string[] {
  return Object.keys(before)
    .filter((key) => !isProse(before, key))
    .flatMap((key) => {
      const path = `${pair.path}/${key}`;
      if (!Object.hasOwn(after, key)) return [`${path} was removed`];
      const request = pair.request || isSent(pair.path, key);
      return compare({ ...pair, before: before[key], after: after[key], path, request });
    });
}

/** The order does not matter: each old entry must have a new entry without a breaking change. */
function compareLists(before: unknown[], after: unknown[], pair: Pair): string[] {
  const { path, request } = pair;
  if (request && path.endsWith('/required')) {
    return after
      .filter((entry) => !before.includes(entry))
      .map((entry) => `${path} requires ${String(entry)}`);
  }
  const removed = before.filter(
    (entry) =>
      !after.some((other) => compare({ ...pair, before: entry, after: other }).length === 0),
  );
  return removed.map((entry) => `${path} lost ${JSON.stringify(entry).slice(0, 200)}`);
}

function isReference(value: unknown): value is { readonly $ref: string } {
  return isObject(value) && typeof value.$ref === 'string';
}

/** The component that a reference names; any other value as it is. */
function resolved(value: unknown, root: JsonObject): unknown {
  if (!isReference(value)) return value;
  return value.$ref
    .split('/')
    .slice(1)
    .reduce<unknown>((inner, key) => (isObject(inner) ? inner[key] : undefined), root);
}

/** Texts for people and examples, unless a field has such a name. */
function isProse(parent: JsonObject, key: string): boolean {
  if (key === 'examples' || key === 'example') return isObject(parent.schema);
  return PROSE.has(key) && !isObject(parent[key]);
}

function isSent(path: string, key: string): boolean {
  if (key === 'requestBody') return !path.startsWith('/webhooks/');
  if (key === 'parameters') return true;
  return path === '/components/schemas' && SENT.test(key);
}
