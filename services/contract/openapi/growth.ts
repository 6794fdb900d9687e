import { isDeepStrictEqual } from 'node:util';
import { isObject, type JsonObject } from '../json-object.ts';

/**
 * What a released OpenAPI document lost or tightened (interface: Versioning, rules 6 and 7): keys and
 * list entries may be added, none may go, and values stay. A request may not ask for more: its
 * `required` lists and `enum`s are read the other way round where that is what breaks a caller.
 * Texts for people may change.
 */
export function breakingChanges(before: JsonObject, after: JsonObject): string[] {
  return compare({ before, after, path: '', request: false });
}

interface Pair {
  readonly before: unknown;
  readonly after: unknown;
  readonly path: string;
  /** True inside what callers send. */
  readonly request: boolean;
}

const PROSE = new Set(['description', 'summary', 'title']);
const SENT = /Body$|Input$/;

function compare(pair: Pair): string[] {
  const { before, after, path } = pair;
  if (isObject(before) && isObject(after)) return compareObjects(before, after, pair);
  if (Array.isArray(before) && Array.isArray(after)) return compareLists(before, after, pair);
  return isDeepStrictEqual(before, after) ? [] : [`${path} changed`];
}

function compareObjects(before: JsonObject, after: JsonObject, pair: Pair): string[] {
  return Object.keys(before)
    .filter((key) => !isProse(before, key))
    .flatMap((key) => {
      const path = `${pair.path}/${key}`;
      if (!Object.hasOwn(after, key)) return [`${path} is gone`];
      const request = pair.request || isSent(pair.path, key);
      return compare({ before: before[key], after: after[key], path, request });
    });
}

/** Order does not matter: an entry is kept when some entry of the new list is no step back from it. */
function compareLists(before: unknown[], after: unknown[], pair: Pair): string[] {
  const { path, request } = pair;
  if (request && path.endsWith('/required')) {
    return after
      .filter((entry) => !before.includes(entry))
      .map((entry) => `${path} asks for ${String(entry)}`);
  }
  const gone = before.filter(
    (entry) =>
      !after.some((other) => compare({ ...pair, before: entry, after: other }).length === 0),
  );
  return gone.map((entry) => `${path} lost ${JSON.stringify(entry).slice(0, 200)}`);
}

/** Texts for people and the examples beside a schema; a field may have the name of either. */
function isProse(parent: JsonObject, key: string): boolean {
  return key === 'examples' ? isObject(parent.schema) : PROSE.has(key) && !isObject(parent[key]);
}

function isSent(path: string, key: string): boolean {
  if (key === 'requestBody') return !path.startsWith('/webhooks/');
  if (key === 'parameters') return true;
  return path === '/components/schemas' && SENT.test(key);
}
