import { OPERATIONS, type Operation } from '../../services/contract/operations.ts';
import { type Served, serve, splitPath } from '../../services/contract/versions.ts';

/** The result of routing: version and operation of a request, or why there are none. */
export type Route =
  /** Not under `/api`. */
  | { readonly kind: 'outside' }
  /** @property detail the error text. */
  | { readonly kind: 'unknown-version'; readonly detail: string }
  | { readonly kind: 'unknown-path'; readonly served: Served }
  | { readonly kind: 'options' | 'wrong-method'; readonly served: Served; readonly allow: string }
  | {
      readonly kind: 'operation';
      readonly served: Served;
      readonly operation: Operation;
      /** The id in the path, percent-decoded once; undefined when there is none. */
      readonly id: string | undefined;
      /** The `webhook-id` in the path; undefined when there is none. */
      readonly deliveryId: string | undefined;
    };

/**
 * Resolves version, path and operation, in this order: an unknown version is reported before an unknown path. Paths are
 * case-sensitive and have no trailing slash. Each part is percent-decoded once, so an encoded slash is not a separator.
 *
 * @param target the request target as received, with its query.
 * @param today the date of the version calendar.
 */
export function resolveRoute(method: string, target: string, today: Date): Route {
  const split = splitPath(pathOf(target));
  if (!split) return { kind: 'outside' };
  const served = serve(split.segment, today, split.rest);
  if ('unknown' in served) return { kind: 'unknown-version', detail: served.unknown };
  const parts = decodeParts(split.rest);
  const matches = OPERATIONS.filter((one) => matchPath(templateOf(one), parts));
  if (matches.length === 0) return { kind: 'unknown-path', served };
  if (method === 'OPTIONS') return { kind: 'options', served, allow: allowOf(matches) };
  const wanted = method === 'HEAD' ? 'GET' : method;
  const operation = matches.find((one) => one.method === wanted);
  if (!operation) return { kind: 'wrong-method', served, allow: allowOf(matches) };
  const id = partAt(ID, operation, parts);
  const deliveryId = partAt(DELIVERY_ID, operation, parts);
  return { kind: 'operation', served, operation, id, deliveryId };
}

/** The path, with its first part decoded: `/%61pi/v1` is `/api/v1`. */
function pathOf(target: string): string {
  const [path = ''] = withoutOrigin(target).split('?', 1);
  const [, first = '', rest = ''] = /^\/([^/]*)(.*)$/s.exec(path) ?? [];
  return decodePart(first) === 'api' ? `/api${rest}` : path;
}

/** Proxies send absolute targets (RFC 9112, 3.2.2). */
function withoutOrigin(target: string): string {
  return target.replace(/^https?:\/\/[^/?#]*/i, '');
}

/** A part with malformed percent signs is not decoded; as an id it does not exist. */
function decodeParts(path: string): string[] {
  return path
    .split('/')
    .slice(1)
    .map((part) => decodePart(part) ?? part);
}

function decodePart(part: string): string | undefined {
  try {
    return decodeURIComponent(part);
  } catch {
    return undefined;
  }
}

const ID = '{id}';
const DELIVERY_ID = '{delivery_id}';

/** The paths of operations, split once. */
const TEMPLATES: ReadonlyMap<Operation, readonly string[]> = new Map(
  OPERATIONS.map((operation) => [operation, operation.path.split('/').slice(1)]),
);

function templateOf(operation: Operation): readonly string[] {
  return TEMPLATES.get(operation) ?? [];
}

function matchPath(template: readonly string[], parts: readonly string[]): boolean {
  if (template.length !== parts.length) return false;
  return template.every((part, at) =>
    part === ID || part === DELIVERY_ID ? parts[at] !== '' : part === parts[at],
  );
}

function partAt(name: string, operation: Operation, parts: readonly string[]): string | undefined {
  const at = templateOf(operation).indexOf(name);
  return at === -1 ? undefined : parts[at];
}

function allowOf(operations: readonly Operation[]): string {
  const methods = new Set<string>(operations.map((one) => one.method));
  if (methods.has('GET')) methods.add('HEAD');
  return [...methods, 'OPTIONS'].join(', ');
}
