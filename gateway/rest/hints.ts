import type { ServerResponse } from 'node:http';
import { NOT_FOUND, type PublicError } from '../../services/contract/errors.ts';
import type { Operation, OperationId } from '../../services/contract/operation.ts';
import { OPERATIONS } from '../../services/contract/operations.ts';
import { DETAILS_PARAMETERS } from '../../services/contract/resources/details-query.ts';
import { nearest } from '../../services/contract/validate/nearest.ts';
import { documentationLink, newestActive, serve } from '../../services/contract/versions.ts';
import { parseId } from '../../services/platform/values/ids.ts';
import type { Caller } from '../auth/caller.ts';
import { addHint, addLink } from '../http/help-headers.ts';
import { queryOf } from '../http/query.ts';

/** Maximum length of a path for which a hint is searched. Characters. */
const PATH_MAX = 200;
/** The id of an object or of a delivery. */
const ID = /^(?:\d{1,16}|msg_[0-9a-f-]{36})$/;
/** A part of a path that looks like a version, such as `v2`, `2026-9` or `latest`. */
const VERSION = /^(?:v\d[\w.]*|\d{4}-\d+|unstable|latest)$/i;
/** Paths under which other APIs have one return: below the list of returns. */
const ONE_RETURN = /^(?:\/warehouse)?\/returns?\/\{\}$/;
const DETAILS = '/warehouse/return/details?return_id={id}';

/** The paths of the operations. `form` is the path with `{}` in place of each id. */
const KNOWN = [...new Set(OPERATIONS.map(({ path }) => path))].map((path) => ({
  path,
  form: path.replaceAll(/\{\w+\}/g, '{}'),
}));

/**
 * Adds two things to the 404 of an unknown path or version: a link to the documents, and the path that the caller
 * probably wanted.
 */
export function addPathHelp(
  req: { readonly originalUrl: string },
  res: ServerResponse,
  today: Date,
): void {
  addLink(res, documentationLink(today));
  const hint = pathHint(req.originalUrl, today);
  if (hint !== undefined) addHint(res, hint);
}

/**
 * Returns the path that the caller of an unknown path probably wanted, in ASCII; undefined when no path is similar. A
 * path outside of `/api` must be exactly that of an operation, because the caller may want another service.
 *
 * @param target the target of the request, with its query.
 * @param today the date of the version calendar. The hint keeps a version of the path that is served, also a retired one
 *   that a newer version serves. Otherwise the hint has the newest active version.
 */
export function pathHint(target: string, today: Date): string | undefined {
  const [written = ''] = target.replace(/^https?:\/\/[^/?#]*/i, '').split('?');
  if (written.length > PATH_MAX) return undefined;
  const parts = written.split('/').filter((part) => part !== '');
  const isBelowApi = parts[0]?.toLowerCase() === 'api';
  const below = isBelowApi ? parts.slice(1) : parts;
  const named = VERSION.test(below[0] ?? '') ? below[0] : undefined;
  const meant = operationPath(named === undefined ? below : below.slice(1), { exact: !isBelowApi });
  if (meant === undefined) return undefined;
  const isServed = named !== undefined && !('unknown' in serve(named, today));
  const path = `/api/${isServed ? named : newestActive(today)}${meant}`;
  return written.replace(/\/+$/, '') === path
    ? `remove the / at the end of the path: ${path}`
    : `did you mean ${path}?`;
}

/** Returns the path of the most similar operation, with the ids of these parts. */
function operationPath(parts: readonly string[], o: { exact: boolean }): string | undefined {
  const form = `/${parts.map((part) => (ID.test(part) ? '{}' : part)).join('/')}`.toLowerCase();
  if (!/[a-z]/.test(form)) return undefined;
  const ids = parts.filter((part) => ID.test(part));
  const same = KNOWN.find((known) => known.form === form);
  const path = same?.path ?? (o.exact ? undefined : similarPath(form));
  let nth = 0;
  return path?.replaceAll(/\{\w+\}/g, (name) => ids[nth++] ?? name);
}

function similarPath(form: string): string | undefined {
  if (ONE_RETURN.test(form)) return DETAILS;
  // A longer path that contains all parts, such as `/webhooks/{}/secret/rotate` for `/webhooks/12/rotate`.
  const [whole] = KNOWN.filter((known) => isWithin(form, known.form)).sort(byLength);
  if (whole) return whole.path;
  return KNOWN.find((known) => isMistyped(form, known.form))?.path;
}

/** Whether each part of one path is equal or similar to the same part of the other path. */
function isMistyped(form: string, other: string): boolean {
  const [parts, others] = [form.split('/'), other.split('/')];
  return (
    parts.length === others.length &&
    parts.every((part, at) => {
      const known = others[at] ?? '';
      return part === known || (part !== '{}' && known !== '{}' && isSimilar(part, known));
    })
  );
}

function isSimilar(part: string, known: string): boolean {
  return nearest(part, [known]) !== undefined;
}

const byLength = (a: { form: string }, b: { form: string }) => a.form.length - b.form.length;

/** Whether the other path contains all parts of this path, in the same order. */
function isWithin(form: string, other: string): boolean {
  let from = 0;
  const parts = other.split('/');
  return form.split('/').every((part) => {
    from = parts.indexOf(part, from) + 1;
    return from > 0;
  });
}

/** The id of a delivery. */
export const DELIVERY_ID = /^msg_[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** The ids and parameters of a request, as the client sent them. */
interface Named {
  readonly params: Readonly<Record<string, string | string[] | undefined>>;
  /** The target of the request, with its query. */
  readonly url: string;
}

interface Missing {
  /** The id in the path. */
  readonly id: string;
  readonly deliveryId: string;
  /** The parameter of return details that selects the return. */
  readonly selector: string;
}

const RETURNS = 'list them with GET /warehouse/returns?archived=include';
const RETURN = ({ id }: Missing) => `no return ${id}: ${RETURNS}`;

type Sentence = (missing: Missing) => string;

/** What does not exist, and where to find an id that does, for each kind of object. */
const SENTENCES: ReadonlyMap<PublicError, Sentence> = new Map<PublicError, Sentence>([
  [NOT_FOUND.webhook, ({ id }) => `no webhook ${id}: list them with GET /webhooks`],
  [
    NOT_FOUND.delivery,
    ({ id, deliveryId }) =>
      `no delivery ${deliveryId} of webhook ${id}: list them with GET /webhooks/${id}/deliveries`,
  ],
  [NOT_FOUND.replay, ({ id }) => `no replay ${id}: list them with GET /webhook-replays`],
  [NOT_FOUND.destination, ({ id }) => `no destination ${id}: list them with GET /destinations`],
  [NOT_FOUND.returnDetails, ({ selector }) => `no return with this ${selector}: ${RETURNS}`],
  [NOT_FOUND.return, RETURN],
  [NOT_FOUND.processReturn, RETURN],
  [NOT_FOUND.arrivedReturn, () => `no such return: ${RETURNS}`],
  [
    NOT_FOUND.label,
    ({ id }) => `no label ${id}: POST /returns/{id}/labels returned the id of each label`,
  ],
  [NOT_FOUND.cart, () => 'no cart with this token: carts expire, so create it again'],
]);

/**
 * What to look up when the shop has no such object, in ASCII. Undefined for an operation without a 404 of its own, and
 * for a malformed id, which has another hint.
 */
export function missingHint(
  { notFound }: Operation,
  { scheme, sandbox }: Pick<Caller, 'scheme' | 'sandbox'>,
  { params, url }: Named,
): string | undefined {
  const { id, delivery_id: delivery } = params;
  const isMalformed =
    (id !== undefined && parseId(String(id)) === undefined) ||
    (delivery !== undefined && !DELIVERY_ID.test(String(delivery)));
  const sentence = notFound && SENTENCES.get(notFound);
  if (isMalformed || !sentence) return undefined;
  const query = queryOf({ url });
  const selector = DETAILS_PARAMETERS.find((name) => query.has(name)) ?? 'id';
  const shop = `the ${sandbox ? 'sandbox ' : ''}shop of this ${scheme === 'bearer' ? 'token' : 'key'}`;
  return `${shop} has ${sentence({ id: String(id), deliveryId: String(delivery), selector })}`;
}

/** Operations on a webhook that fail with 409 only when the webhook is inactive. */
const NEEDS_ACTIVE: ReadonlySet<OperationId> = new Set(['testWebhook', 'retryDeliveries']);

/** What to do so that the state no longer forbids the request, in ASCII; undefined when the message already says it. */
export function conflictHint(
  { id: operation }: Operation,
  { status }: PublicError,
  { params: { id } }: Named,
): string | undefined {
  return status === 409 && NEEDS_ACTIVE.has(operation)
    ? `activate it first: PUT /webhooks/${id} with its fields and status active`
    : undefined;
}
